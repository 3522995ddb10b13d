"""Maps of wrong weights of attention, and six causes."""

from course_lib.exercises.naming import name_pictures

CAUSES = {
    "the grid rounds down": "Then only the queries from number 96 on would be wrong, for all keys.",
    "a query does not see itself": "Then the diagonal would be wrong in every row.",
    "tiles on the diagonal are not masked": "Then weights to the right of the diagonal would be wrong, in the tiles that the "
    "diagonal cuts.",
    "acc is not corrected when the maximum grows": (
        "Then queries 0 to 31 would be right, and later rows wrong in their earlier tiles of keys, but never in their last one."
    ),
    "l is not corrected when the maximum grows": (
        "Then queries 0 to 31 would be right, and some of the later rows would be wrong for all keys that they see."
    ),
    "scores are rounded to bfloat16": "Then no row, no column and no edge would show. Single weights would be wrong, here and there.",
}
"""Each cause, and what its picture would look like."""

# of each patch of 4 x 4 weights the share that is wrong, in tenths; there are 100 queries and 100 keys, tiles are 32 x 32
MAPS = {
    "A": [
        *7 * ["9999999900000000000000000"],
        "7777777700000000000000000",
        *7 * ["9999999999999999000000000"],
        "7777777777777777000000000",
        *6 * ["9999999999999999999999990"],
        "7777777777777777777777790",
        "5555555555555555555555550",
        "2222222222222222222222224",
    ],
    "B": [
        *9 * ["0000000000000000000000000"],
        "2222222221000000000000000",
        "0000000000000000000000000",
        "2222222222210000000000000",
        "0000000000000000000000000",
        "2222222222222000000000000",
        "7777777777777750000000000",
        "2222222222222221000000000",
        "2222222222222222100000000",
        "9999999999999999960000000",
        "5555555555555555553000000",
        "2222222222222222222000000",
        "2222222222222222222220000",
        "7777777777777777777774000",
        "5555555555555555555555200",
        "2222222222222222222222210",
        "7777777777777777777777773",
    ],
    "C": [
        *24 * ["0000000000000000000000000"],
        "9999999999999999999999996",
    ],
    "D": [
        "0000000000000000000000000",
        *2 * ["1100000000000000000000000"],
        "0301000000000000000000000",
        "3254100000000000000000000",
        "2011110000000000000000000",
        "1022330000000000000000000",
        "3534333100000000000000000",
        "1111111100000000000000000",
        "2220121311000000000000000",
        "6555557545400000000000000",
        "3142311131310000000000000",
        "3121213200111000000000000",
        "3311330332121100000000000",
        "1323131111001000000000000",
        "2232231112212311000000000",
        "1110243010201311100000000",
        "1130130022210011110000000",
        "1111313134212332111000000",
        "1233222234111312331100000",
        "3224113322413112223310000",
        "3233353434424533462333000",
        "3431333112312221113232100",
        "1532333220113303210110000",
        "1001301120110111111321111",
    ],
    "E": [
        *9 * ["0000000000000000000000000"],
        "2222222200000000000000000",
        "0000000000000000000000000",
        "2222222200000000000000000",
        "0000000000000000000000000",
        "2222222200000000000000000",
        "7777777700000000000000000",
        *2 * ["2222222200000000000000000"],
        "9999999955555555000000000",
        "5555555522222222000000000",
        "2222222222222222000000000",
        "2222222200000000000000000",
        "7777777700000000000000000",
        "5555555555555555000000000",
        "2222222200000000000000000",
        "7777777722222222000000000",
    ],
    "F": [
        "6000000000000000000000000",
        "7500000000000000000000000",
        "9960000000000000000000000",
        "9996000000000000000000000",
        "9999600000000000000000000",
        "7777750000000000000000000",
        "7777776000000000000000000",
        "5555555300000000000000000",
        "2222222240000000000000000",
        "7777777775000000000000000",
        "2222222222200000000000000",
        "9999999999960000000000000",
        "2222222222223000000000000",
        "5555555555555400000000000",
        "7777777777777760000000000",
        "2222222222222223000000000",
        "0000000000000000200000000",
        "0000000000000000020000000",
        "5555555555555555553000000",
        "7777777777777777777400000",
        "2222222222222222222230000",
        "2222222222222222222222000",
        "2222222222222222222222300",
        "2222222222222222222222230",
        "0000000000000000000000002",
    ],
}

# sealed with the right cause by grader/audit/named.py, which has the plain text
SEALED = {
    "A": (
        "UoDf}cV(pd_9DIf+61ru2gV2GQ$H^_I|F7IpfP99G3gQ`)`~5Tlh3m4Q}{<a6oaj#QrI9N{L7kN4{sd9bD_%O;maj3K5DR1KtXyd$zm!4qFH=-"
    ),
    "B": (
        "u4)n!zQnrP`SNID2?N?n|HxJ~06d#iQa+H~IVNZ#!9~~&P-eGQsh*~GMtu<k<s5xnx3EW8T;ffXnEPBmYUp+8pBEy=YRsd@Tl#9A"
        "p$+)JLul$&h#=yiT*vBahYE5U|MntJP$WAA?pB?U8Zwq3P5"
    ),
    "C": (
        "GkEQ){x@c>J5uhu?9U%#)P(y-b2lvBEm<!!8PtKc0DXvOZQos54szy(#;wE#S=RQ{{HCbE0(fM;7t^psH5DtAL;@!)OwJfufP)W?"
        "r~!|skvXJhG@k&_AqbUwMos"
    ),
    "D": (
        "dyRMpjpVS3vLwvfcR62quptW^f-_1<+lP{{C2xhBtYXWla?JXUm8xjGE6gB)SExdt>$UC@L8eK@0q-<b!(=Q@TcW-2vWtI)#Z!Bw"
        "8EaC-YjYwp*$7SQ=kMw~e{Z*+O{t+FSVur_J+&@&n;FsI3ggl"
    ),
    "E": (
        "X8cU}A<1)497HN0>}DrgV&4V`7&#IrDkL}MZ##x2Pf$iV;asAGgcHujwNJ(uTgcJ-fNxi`j)6*`1Zba{VL`I+ZaJ2lXBc){!RBjY"
        "NWZ2#$MrQmS`o0rAUPu?B$0PoTCS+P({l`@iKED)k3%*#e(bxvqVkOAIhTmlz9{Hr6pVvK^Vzf8iNI^L3@&5"
    ),
    "F": (
        "BpED^-!sM|upngvz;Klchfs~_hU_?>3q`M~aZJPOX6A;e_59Y4Ru^{%0|&(l)m9;-Hi^o5%YP)?6!r`*ZOR1lEYyz$_)uJKrGbS9"
        "=24)|PH|n@?bD#O!22-?OGFQP+MY8UM67K{>WI(d5D4RnUY-$|mmNfV4Z)$d(UIFs|1kLn_T?9lla0f9l@klHA*c-"
    ),
}

name_maps = name_pictures(
    "flash.name_maps",
    "named_maps",
    "six maps",
    SEALED,
    CAUSES,
)
