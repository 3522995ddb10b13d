"""Maps of wrong weights of attention, and six causes."""

from course_lib.exercises.naming import name_pictures

CAUSES = {
    "the grid rounds down": "Then only the last queries would be wrong, those from number 96 on, and for all keys.",
    "a query does not see itself": "Then the diagonal would be wrong in every row, whatever the rest of the row does.",
    "tiles on the diagonal are not masked": "Then something would show right of the diagonal, in the tiles that it cuts.",
    "acc is not corrected when the maximum grows": (
        "Then queries 0 to 31 would be right, and later rows wrong in their earlier tiles of keys, but never in their last one."
    ),
    "l is not corrected when the maximum grows": (
        "Then queries 0 to 31 would be right, and of the later rows some would be wrong as far as they see."
    ),
    "scores are rounded to bfloat16": "Then no row, no column and no edge would show: single weights would be off, here and there.",
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
        "UoDFqZDHj4>Y7L(?P_e`@)O5aP1VcT@@vu;w>%Yqmy_Xpnxy=32cO^hk0Iw}<quC{OB20nx=MaKIS-|BH!6jlZun4@IYuTHVS!FD"
        "ByYOD@|mA+n*"
    ),
    "B": (
        "u4)n#KF7PN`7>CY8v<%v^GLNc7>93JlsJ&h-6tOs)%w7E%SK*sgsR!H2%TBp?W5vOW<U0n&e`H7tBW@kTJt#z$qOf%wGM7Fn7j10"
        "OLq3bz*eqwoO|qq*t}!LRbbX!O$OIVI%9T<3nnjExc"
    ),
    "C": (
        "GkDFaZZKuOCl~)kuFUgkzp;i0@>{NjlQfE`%fpXzidMdQP3d70<tINdd!v3YjrXT?gv>!@^3-3g*QAuIUvvMbC4;E^gB%b+0G|Lo$#xR8y;af"
    ),
    "D": (
        "dyRMpo#c0mvSYyVbx!`f8h0XW2cnKvSguzN^;2X`3xo+Js!?I%PXokK`2JJ%AV@(B%3nm?@X0B*oj)jPxy{!<?!1j%YW$h?EG4~="
        "?Px(>3lP(W9jzyCOJXX<S5ZhAt6VsIkBe7+9R"
    ),
    "E": (
        "X8cUKE6H<E97IJqFV9_1fB224xZbb%KO9;>gSzxdLXA?&_U#|=@%dI;%3w$7?>69q(;<}^3^J2jJ8VKDarBAs2<K73-4aph4y_Mm"
        "EaKaxp3J-l_swBcv}T>_>|($}*ug<R%p`Zj^$;v$t7WSEc~?FKDg0G7cs*5Ize@9HqZOTSvj"
    ),
    "F": (
        "BpED>)iZ`8v|we!z!U&Gh2V{pz7&I3(t`gi8<`7~J_yiaqW+c)a3|?t^$mquM5?5<9xlJn=<y}rZH_@Y!k##iVl&{3iFe1Ti~0r1"
        "{7c!WYxV>GsBoD1PYyvT#Y!DeTATwmSq}1)0!aOxV4)_wd%r;vrUqF`8xGbtZrsn={EoE|dVXKEp`2cPK>"
    ),
}

name_maps = name_pictures(
    "flash.name_maps",
    "named_maps",
    "six maps",
    SEALED,
    CAUSES,
    hints=[
        "Where is a map right? Queries 0 to 31 see one tile of keys, so that there is no state to correct. Which maps are right there?",
        "Two maps have wrong rows from query 32 on. In one of them the last tile of each row is right. Which sum gets the last tile's "
        "weights after every correction, and which sum divides them all?",
        "What is wrong in every row of map F, and what is wrong to the right of the diagonal in map A? "
        "In map D, look for an edge: there is none.",
    ],
)
