"""Pictures of 32 lanes on memory, and six causes."""

from course_lib.catalogue import say
from course_lib.exercises.naming import name_pictures

CAUSES = {
    "the rows of a matrix that is not padded": say("coalescing.name_pictures.shifted"),
    "one field of a structure of two": say("coalescing.name_pictures.field_of_two"),
    "down a column": say("coalescing.name_pictures.column"),
    "one number for all": say("coalescing.name_pictures.one_number"),
    "a gather of rows by index": say("coalescing.name_pictures.gather"),
    "a tile whose rows are half a sector": say("coalescing.name_pictures.half_a_sector"),
}
"""Each cause, and what its picture would look like."""

# bytes from the beginning of the tensor, one for each lane of a request that loads float32
LANES = {
    "A": list(range(0, 32 * 384, 384)),
    "B": [start + 4 * i for start in (1184, 64, 2016, 512) for i in range(8)],
    "C": list(range(4, 132, 4)),
    "D": [start + 4 * i for start in range(0, 8 * 160, 160) for i in range(4)],
    "E": list(range(0, 256, 8)),
    "F": [128] * 32,
}

# sealed with the right cause by grader/audit/named.py, which has the plain text
SEALED = {
    "A": ("Hz?dEsb*>)=HU!1c}K8xLFIuUtI2eVVG-sB+W3j$Q@x{$mx5uqm-DTr99esIuUdC3qy+h)vM{h_&&3BTd_r*tc}%V)0A*_Dy4u?"),
    "B": (
        "H;M!3)sfDm>K>7rRu!V|BR)*hQv53P6PD0%uWS>^ygLFcSNrJ|*W3Tu?ruWeSd9F9QKlhQa2#A#yK@cA<VRY+9^M7avy@!T{Ex%~"
        "Qwi)q$ds$iu-iO5U+8N)M!K>O)Wb9(<sjzcm-?LS"
    ),
    "C": (
        "8)-GqPp*st;A6Yu_q^d!ZPL2>%kX*o_KNm$#QRH!N(!>(V%b&NM)}$N1WDA}vW&+7V26@F<LE75M5GOFQH1Ino!)&8CMS~E=gU@O"
        "oejp7O{)?TaJuZ230b}rn)PNhS^wiX-4vp4kN"
    ),
    "D": (
        "(0)Z1A_GaTJ&yLSjDwdcPC-B0b>Wn-*0z@$l_A_7irFZNlog0{g-}a(5*@i@uR_azBV0ycM84rRrzu1*(4`;o4qo}WdI<TEMZ4#U"
        "dv>RQQtiZK_98>ib?t}K?_apAfP8r;W#m="
    ),
    "E": (
        ">vuTAcazoPzmLc3?E{JCXf7Cn{F=i@-(zZPGuw%g=B<m0I<l;lrgb1~#fi>gWiJs!B~5^1`r&|@X_(BUu#AhaW@}J+b5f2fr+g=KwU)l0*#"
    ),
    "F": (
        "x*!ANT^gWm(lT4kpIpz$2OhIicEbzy1FoDJ1j!)EYBCG3YMph8%2Jls*ado|FBT)+HeHuM02HpN6ha5+TUO7y<8No~orf^}h;oLn"
        "*WL8ft0M+-X8"
    ),
}

name_lanes = name_pictures(
    "coalescing.name_lanes",
    "named_lanes",
    "six requests",
    SEALED,
    CAUSES,
    minutes=5,
)
