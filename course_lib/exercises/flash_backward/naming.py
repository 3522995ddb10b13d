"""Maps of wrong gradients of attention, and six causes."""

from course_lib.catalogue import say
from course_lib.exercises.naming import name_pictures

CAUSES = {
    "delta is not subtracted": say("flash_backward.name_pictures.no_delta"),
    "the grid of dkdv rounds down": say("flash_backward.name_pictures.grid"),
    "tiles on the diagonal are not masked in dkdv": say("flash_backward.name_pictures.unmasked_diagonal"),
    "dk is not scaled": say("flash_backward.name_pictures.unscaled"),
    "programs add to dq without atomics": say("flash_backward.name_pictures.no_atomics"),
    "dk and dv are kept in float16": say("flash_backward.name_pictures.float16"),
}  # fmt: skip
"""Each cause, and what its picture would look like."""

# dq, dk and dv side by side, (100, 32) each; of each patch of 4 x 4 elements the share that is wrong, in tenths; tiles are 32 x 32
MAPS = {
    "A": [
        *25 * ["000000009999999900000000"],
    ],
    "B": [
        *24 * ["000000000000000000000000"],
        "000000009999999999999999",
    ],
    "C": [
        "000000005766765278687666",
        "000000006666556547555565",
        "000000004345345453667556",
        "000000005333333553413354",
        "000000005436434452313133",
        "000000005333433453314113",
        "000000003211351632324114",
        "000000001311443221430004",
        "000000001023201210110111",
        "000000003111212210010312",
        "000000002010011043111302",
        "000000002013231110020011",
        "000000001100010101010010",
        "000000000000000010100000",
        "000000001001000000000000",
        "000000000000000001000000",
        "000000000000000000000000",
        "000000001000000000000000",
        "000000001000101000000000",
        *2 * ["000000000000000000000000"],
        "000000000001000000000000",
        *3 * ["000000000000000000000000"],
    ],
    "D": [
        *8 * ["000000000000000000000000"],
        *17 * ["999999990000000000000000"],
    ],
    "E": [
        *7 * ["999999999999999900000000"],
        "999999999989999900000000",
        *3 * ["999999999999999900000000"],
        "999999899999999900000000",
        *6 * ["999999999999999900000000"],
        "999999999999989900000000",
        *3 * ["999999999999999900000000"],
        "999999999999989900000000",
        "999999999999999900000000",
        "999999999999988800000000",
    ],
    "F": [
        "000000007777777777777777",
        *7 * ["000000009999999999999999"],
        "000000007777777777776777",
        *7 * ["000000009999999999999999"],
        "000000007677677776776777",
        *7 * ["000000009999999999999999"],
        "000000006665555677767777",
    ],
}

# sealed with the right cause by grader/audit/named.py, which has the plain text
SEALED = {
    "A": (
        "(j!L=!8q)u+inNZX^8;m`!5-Ir*obj&G3vp@(eOk**klh_@C@g8&-c3RD$*F3sTu<EBr`lZ#C-8Stfnx@UFVh!<|;teA&;BJH`PT"
        "bTr1Q-zc;{hw585fR0@"
    ),
    "B": (
        "g|VYFmfHV;?78eLiV0pgSc&TO`tk*x5&&;&v|`PUFfC<F0yS_q-`^<%cfDE$&9ItGBq7I!dj8MIZ)CSHnT{W{WK}j;dT?0R9zK{$"
        "1t39EM1#ro9ya``55PCFBPeKygtxF4YpcDc$_mIuUH"
    ),
    "C": (
        "!U=&^ei`3P#w{269g=oBJcSATaZbX?<Q|;y6h>xd0#O=#mv9z;G!LMJ3O<!o)VM_V2vl$zo4<~oBbo%8GIv3!;ZtvGGi5SoWAl!%"
        "vWVTsU{TdyEflxd9tP9}4#X1ffh{W`t0cXuTj`Z7@R49GNGmZ4<%=Q?MZf(n"
    ),
    "D": (
        "6}ss=l+tJ1rD*TC07JqSK<}&&z1#s<@^XGSA8WhL`8h-%;BO!kwM90&|4j1^<jpOI_e=I^)T*QU7VX&>QFM?f#RP~irwqRVX=AlY"
        "`*c(v{3h&%U2~O>?DGNGl4q{sLA7%T4l})y_4EiIH`;ck%O%@$$$$"
    ),
    "E": (
        "UOajbT^faMK~B}LU`5R-UVrFTMgfWZ(KBj_urGMt5?=14V?jfIJ!{+O>rTdXKge*r6ST#*pGH<tw_XX7i(;9pF)!%hLaPOUanQVZ"
        "f6F5o0IldaX&zU4#rQ*K;n``t-Jvu"
    ),
    "F": (
        "L)j-K3UT7eeR7b3gmkZIe%@JtpcD|fd%ZP)Be-t8O)L=7$?|Gyb-`1Vpro7)#Dfb%fkin_2w0&@r*4CW0a#Kz5|;90k?{9_C5>ks"
        "3Z`PMylBB1_Scp>DguM%zZIz{<vHB?mMDAYWaMJ8)Gd3Jk}+(7)~FO;oV1hMJ*E"
    ),
}

name_gradients = name_pictures(
    "flash_backward.name_gradients",
    "named_gradients",
    "six maps",
    SEALED,
    CAUSES,
)  # fmt: skip
