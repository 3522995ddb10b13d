"""Maps of a wrong product, and six causes."""

from course_lib.catalogue import say
from course_lib.exercises.naming import name_pictures

CAUSES = {
    "the grid rounds down": say("tiling.name_pictures.grid"),
    "no mask on the store's columns": say("tiling.name_pictures.columns_of_the_store"),
    "the last step along K is missing": say("tiling.name_pictures.last_step"),
    "all programs load the first columns of b": say("tiling.name_pictures.first_columns"),
    "sums are kept in float16": say("tiling.name_pictures.float16"),
    "rows are compared with N": say("tiling.name_pictures.rows_against_n"),
}
"""Each cause, and what its picture would look like."""

# of each patch of 4 x 4 elements the share that is wrong, in tenths; c is (100, 80), tiles are 32 x 32
MAPS = {
    "A": [
        "77770000000000000000",
        *24 * ["99990000000000000000"],
    ],
    "B": [
        *25 * ["00000000999999999999"],
    ],
    "C": [
        "00003010001002010110",
        "10001102000010000010",
        "01010100000100001000",
        "00021001000010100001",
        "11000111020010100002",
        "11000110000000011000",
        "11110010000013001121",
        "00012110000000001000",
        "00100010011000101000",
        "10110103010100010201",
        "10011001011110300023",
        "00200001011110101201",
        "02100100101101000001",
        "10101000101110020011",
        "00100001012000002010",
        "10110001111000200011",
        "10001100111010010010",
        "11001100200210211202",
        "00000011001100001230",
        "01011010031101011110",
        "10110011010011200101",
        "00300100000110012001",
        "00300003110111111110",
        "00011000211000000010",
        "21301001101101000111",
    ],
    "D": [
        *24 * ["00000000000000009999"],
        "99999999999999999999",
    ],
    "E": [
        *20 * ["00000000000000000000"],
        *5 * ["99999999999999999999"],
    ],
    "F": [
        *5 * ["99999999999999999999"],
        "99899999999999999999",
        *19 * ["99999999999999999999"],
    ],
}

# sealed with the right cause by grader/audit/named.py, which has the plain text
SEALED = {
    "A": (
        ">HCP!=lyGzghaC|b6?QF#{wu*xg|-EvAmO;Q(;i3$yOEd{O{AESmMBH=r_i)C)fjM7k4_C_DCFbidtF}>sJZg+t<d{CfL6f(ZPf+"
        "O3Nr!Pfz*JH<_iZ^$sD>uGV?ap=qmFGojioun}XOPw-GW^>%^t$)eT<nxdwF*p}VqK_fKVyUir~&pg%`B)}Fv`;o1VpV?-ib<W1!"
        "u~Yg"
    ),
    "B": (
        "Nol4@bL|qUHN!bT5Foz2V1GQlIWsdRdY>lqjvf5_P@WI}c(xnk`1*+adJ+h`oLrn_mxQwXnOEr3GWeCIp)+Si!`}kF+vI@?>_f70"
        "qxsAav3Jlc@BMtBaLeHZ_yAGB&;"
    ),
    "C": (
        "{!E{Q|JKj~a&Wxv-@lhRXOj(9NC+Ud<-=UV9K3gAgtsak4<&vR6OcE3zdBxLKngBp(Ks4>x)L%RLJoyJ_F?`nEdj~k#_PBaG#Wq9"
        "l{)N&V*OXwRw<{|3saW@pNHP{FYfx!82wYX18wa"
    ),
    "D": (
        "Lj#b%j5H7A&oXw{H+C0MD4r1HTf}8~R5YR2(F^ihxx>IIQj^g=*1Ic>TW;ZSE1C1>K<>5M98XkP=cLLfz0<8qZ4{gO3wWed*Pj8X"
        "!*ZkHwG^8#a~X6"
    ),
    "E": (
        "l!30iNyVqU80!@6y17Gi`O7bF$`67e@`II^+nH$Gy8K#sWM;XQK_cBHPII9s75u72E^m2f{av&`6w6X`)^3>th8O;ZpT5joL<Lv5"
        "9<{s%oa+VPs13bv#NYt1j&hK7$G9f"
    ),
    "F": (
        "OkP_(MBNT(B2h@IEDH}{$Rf?-F{mX-aCZ*;9wf-Hcnx3FjB@2p^-H{wpL#)p-)EaW2uYGN+ET#zaWx~t%~W*?e8Kc5=uvhamPM~(9Q!YhNfH"
    ),
}

name_maps = name_pictures(
    "tiling.name_maps",
    "named_maps",
    "six maps",
    SEALED,
    CAUSES,
)
