"""Maps of a wrong product, and six causes."""

from course_lib.exercises.naming import name_pictures

CAUSES = {
    "the grid rounds down": "Then the last rows *and* the last columns would be wrong, and all else right.",
    "no mask on the store's columns": "Then what sticks out at the right would land at the left of the next row.",
    "the last step along K is missing": "Then no place would be better than another: each element lacks some products.",
    "all programs load the first columns of b": "Then the first tile of columns would be right from top to bottom, and no other.",
    "sums are kept in float16": "Then single elements would be off, here and there, wherever a sum was large on the way.",
    "rows are compared with N": "Then all columns would be alike, and the rows from number 80 on would be wrong.",
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
        ">HCP!|NSfGghjLKdoO_x=2$F)3Dh+7*t;ZIU=r9m*9f&XX3!p)3jF7&)@MgNw4YyI5Tf(eCiN>&jalgyEM;>QRPw|zHUUImRDS47"
        "hD=ZPUgMtBXFSi(J8;391W=HmFB#%H2eZ6~*;^4nh44J@97|?!r)EPvAz6x%3*`f>*^-Agc9%fb$1}$7u`G#f5gj36H2"
    ),
    "B": (
        "NolT0bLrBmDZvRqAW7Ss9;jYD5)~&Jao4U#Iy&9w^x20mr1OX=nA1Vv;YmRyC$YYk<;8!cbZ)erPiUa<*CI1ZOy%c3*;j~Z0$@<d"
        "s=MXL*y5i-=<}DB)1Ln6L+IGS8U"
    ),
    "C": (
        "{!E{O<<^h_ayGoS+^+2bNOTUrzZmjs?IT0oevfy6{r@Cpqok1vY_A!W|7Z5P-?;Jwqi3P5cn3#ec}Y|ry`e}F9FD#wt}WL)Y4~~k"
        "?MTdqBSTpwkyN~Pw8ZJMp&t"
    ),
    "D": ("Lj&dq?QUNaj0W#Gcru8Ja6UXP;{xVwzSF{tJYqfMpmID+n@TFEk442J9%Mc9)lLkviw?YDYU&)cfTbGx4)@O5cry`la2-BvkpCb7Is"),
    "E": (
        "l!3PU$-?Hm7;BTaMz86_dv+<{L`Y2nmaTw>^3wp9pv-U9D^?gb`l}Fr>2&jn-vkKqn=XCu5~h~cNV}8n+k%LTZ7e6q7^D0DSi<T~"
        "Zn<4T4#P(RY)`ho*wp"
    ),
    "F": (
        "OkP_s#NG@DA`nSdCI~zrhPMX@YZD>j#I1wMoW`nITjlt)C)MoeIUzda5&{-#Rr<7tG9Nc9!Jd-~`o#Z7oW*a|7o?HPF#{wdIxJ#o"
        "yyDE9?BRa25nZA"
    ),
}

name_maps = name_pictures(
    "tiling.name_maps",
    "named_maps",
    "six maps",
    SEALED,
    CAUSES,
    hints=[
        "Which of the edges 32, 64, 80 and 96 do you see in a map, and along which axis? A map without edges is about numbers, not places.",
        "At the right edge, 16 columns of a tile stick out. What would happen to them without a mask?",
        "Count: 4 rows at the bottom are 100 - 96; 20 rows are 100 - 80; 16 columns are 96 - 80 at the left, and 80 - 64 at the right.",
    ],
)
