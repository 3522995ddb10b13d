"""parse.py reads a module's text form by form, and it reads what each Triton's front end prints."""

import importlib.util
import math
import re

import pytest
import torch
import triton
import triton.language as tl
from sentences import says
from triton.backends.compiler import GPUTarget
from triton.compiler import CompilationError
from triton.language.extra import libdevice
from triton.runtime.jit import mangle_type
from triton.tools.tensor_descriptor import TensorDescriptor

from tritontrace.ttir.ir import Place, Type, walk
from tritontrace.ttir.parse import Unparsed, parse
from tritontrace.ttir.printed import make_module, type_of

VERSION = tuple(map(int, triton.__version__.split(".")[:2]))
TARGET = GPUTarget("cuda", 90, 32)

I1, I32, I64, F32 = Type("i1"), Type("i32"), Type("i64"), Type("f32")


def block(element, *shape, pointee=""):
    return Type(element, shape, pointee)


def module_of(lines, arguments="", aliases=""):
    """The text of a module with one function."""
    head = "module {\n  tt.func public @f(" + arguments + ") attributes {noinline = false} {\n"
    return f'#loc = loc("f.py":1:0)\n{aliases}{head}{lines}\n  }} loc(#loc)\n}} loc(#loc)\n'


def operations_of(lines, **more):
    (function,) = parse(module_of(lines, **more)).values()
    return [operation for each in function.blocks for operation in each.operations]


def operation_of(line):
    (operation,) = operations_of(f"    {line} loc(#loc)")
    return operation


def test_regions_beside_one_another_that_use_one_name_have_two_values():
    lines = """
    %n = scf.while (%i = %count) : (i32) -> i32 {
      %0 = arith.cmpi sgt, %i, %count : i32 loc(#loc)
      scf.condition(%0) %i : i32 loc(#loc)
    } do {
    ^bb0(%i: i32 loc(#loc)):
      %0 = tt.load %x : !tt.ptr<i32> loc(#loc)
      tt.store %x, %0 : !tt.ptr<i32> loc(#loc)
      scf.yield %i : i32 loc(#loc)
    } loc(#loc)
    tt.return loc(#loc)"""
    loop, _ = operations_of(lines, arguments="%x: !tt.ptr<i32> loc(#loc), %count: i32 loc(#loc)")
    compare, condition, load, store, again = walk([block for region in loop.regions for block in region])
    names = [name for each in (compare, load) for name, _ in each.results]
    assert len({*names, *(region[0].arguments[0][0] for region in loop.regions)}) == 4
    assert (condition.operands[0], store.operands[1]) == tuple(names)
    assert (condition.operands[1], again.operands[0]) == tuple(region[0].arguments[0][0] for region in loop.regions)


# ----------------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    "text, expected",
    [
        ("i1", I1),
        ("index", Type("index")),
        ("f8E4M3FN", Type("f8E4M3FN")),
        ("tensor<64xi32>", block("i32", 64)),
        ("tensor<64x128xbf16>", block("bf16", 64, 128)),
        ("tensor<f32>", F32),
        ("tensor<8x16x!tt.ptr<f16>>", block("ptr", 8, 16, pointee="f16")),
        ("tensor<8x!tt.ptr<f16>, #ttg.slice<{dim = 1, parent = #mma}>>", block("ptr", 8, pointee="f16")),
        ("tensor<64x1xi1, #mma>", block("i1", 64, 1)),
        ("!tt.ptr<f8E5M2>", Type("ptr", (), "f8E5M2")),
        ("!tt.ptr<f32, 3>", Type("ptr", (), "f32")),
        ("<i8>", Type("ptr", (), "i8")),
        ("!tt.ptr<!tt.ptr<f32>>", Type("ptr", (), "!tt.ptr<f32>")),
        ("tensor<4x!tt.ptr<!tt.ptr<f32>>>", block("ptr", 4, pointee="!tt.ptr<f32>")),
        ("!tt.ptr<tensor<16x32xf32>>", block("block_ptr", 16, 32, pointee="f32")),
        ("<tensor<16x32xf32>>", block("block_ptr", 16, 32, pointee="f32")),
        ("!tt.tensordesc<tensor<64x32xf16>>", block("desc", 64, 32, pointee="f16")),
        ("!tt.tensordesc<tensor<64x32xf16, #shared>>", block("desc", 64, 32, pointee="f16")),
        ("!tt.tensordesc<16x32xsi32>", block("desc", 16, 32, pointee="i32")),
        ("!tt.tensordesc<16x32xui8, #shared>", block("desc", 16, 32, pointee="i8")),
        ("!ttg.memdesc<4x1xi64, #a, #b, mutable>", Type("!ttg.memdesc<4x1xi64, #a, #b, mutable>")),
        ("!ttg.async.token", Type("!ttg.async.token")),
    ],
)
def test_type(text, expected):
    assert type_of(text) == expected


# ----------------------------------------------------------------------------------------------------- constants

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    "text, value, kind",
    [
        ("64 : i32", 64, I32),
        ("-1 : i64", -1, I64),
        ("true", True, I1),
        ("false", False, I1),
        ("0.000000e+00 : f32", 0.0, F32),
        ("1.44269502 : f32", 1.44269502, F32),
        ("1.500000e+00 : bf16", 1.5, Type("bf16")),
        ("9.9999999999999998E-46 : f64", 1e-45, Type("f64")),
        ("0xFF800000 : f32", -INF, F32),
        ("0x7FC00000 : f32", NAN, F32),
        ("0x7E00 : f16", NAN, Type("f16")),
        ("0xFC00 : f16", -INF, Type("f16")),
        ("0x7F80 : bf16", INF, Type("bf16")),
        ("0xFFF0000000000000 : f64", -INF, Type("f64")),
        ("0x7C : f8E5M2", INF, Type("f8E5M2")),
        ("0x7F : f8E4M3FN", NAN, Type("f8E4M3FN")),
        ("0x80 : f8E4M3FNUZ", NAN, Type("f8E4M3FNUZ")),
        ("0x38 : f8E4M3FN", 1.0, Type("f8E4M3FN")),
        ("0x3C00 : f16", 1.0, Type("f16")),
        ("0x0001 : f16", 2.0**-24, Type("f16")),
        ("dense<64> : tensor<64x1xi32>", 64, block("i32", 64, 1)),
        ("dense<true> : tensor<16xi1>", True, block("i1", 16)),
        ("dense<0xFF800000> : tensor<64xf32, #mma>", -INF, block("f32", 64)),
        ("dense<0x7C00> : tensor<16xf16>", INF, block("f16", 16)),
        ("dense<-2.500000e+00> : tensor<4x4xf32>", -2.5, block("f32", 4, 4)),
        ("dense<[1, -2, 3, 4]> : tensor<4xi32>", (1, -2, 3, 4), block("i32", 4)),
        (
            "dense<[[1.000000e+00, 0x7FC00000], [3.0, -4.0]]> : tensor<2x2xf32>",
            ((1.0, NAN), (3.0, -4.0)),
            block("f32", 2, 2),
        ),
        ("dense<[true, false]> : tensor<2xi1>", (True, False), block("i1", 2)),
        ('dense<"0x01000000FEFFFFFF"> : tensor<2xi32>', (1, -2), block("i32", 2)),
        ('dense<"0x0000803F000000C0"> : tensor<2x1xf32>', ((1.0,), (-2.0,)), block("f32", 2, 1)),
        ('dense<"0x803F00C0"> : tensor<2xbf16>', (1.0, -2.0), block("bf16", 2)),
        ('dense<"0x0100"> : tensor<2xi1>', (True, False), block("i1", 2)),
        ('dense<"0x05"> : tensor<4xi1>', (True, False, True, False), block("i1", 4)),
    ],
)
def test_constant(text, value, kind):
    operation = operation_of(f"%c = arith.constant {text}")
    assert operation.results == (("%c", kind),)
    assert operation.operands == ()
    assert list(operation.attributes) == ["value"]
    assert repr(operation.attributes["value"]) == repr(value)  # NaN equals itself here, and 1 is not 1.0 or True


# ----------------------------------------------------------------------------------------------------- operations

POINTERS, FLOATS, MASK = block("ptr", 16, pointee="f32"), block("f32", 16), block("i1", 16)
DESCRIPTOR, TILE = block("desc", 16, 32, pointee="f16"), block("f16", 16, 32)
BLOCK_POINTER = block("block_ptr", 16, 32, pointee="f16")
T, F = "tensor<16x!tt.ptr<f32>>", "tensor<16xf32>"
ONE_OF_EACH, TWO = {"operands": (1, 1, 1)}, {"operands": (1, 2)}

FORMS = [  # as printed, operands, types of results, attributes
    ("%x = tt.get_program_id y : i32", "", [I32], {"axis": 1}),
    ("%x = tt.get_num_programs z : i32", "", [I32], {"axis": 2}),
    ("%x = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>", "", [block("i32", 16)], {"end": 16, "start": 0}),
    (f"%x = tt.splat %a : !tt.ptr<f32> -> {T}", "%a", [POINTERS], {}),
    ("%x = tt.splat %a : i1 -> tensor<1xi1>", "%a", [block("i1", 1)], {}),
    ("%x = tt.unsplat %a : tensor<1xf32>", "%a", [F32], {}),
    ("%x = tt.unsplat %a : tensor<1x!tt.ptr<f32>>", "%a", [Type("ptr", (), "f32")], {}),
    ("%x = tt.expand_dims %a {axis = 1 : i32} : tensor<16xi1> -> tensor<16x1xi1>", "%a", [block("i1", 16, 1)], {"axis": 1}),
    ("%x = tt.broadcast %a : tensor<16x1xi1> -> tensor<16x64xi1>", "%a", [block("i1", 16, 64)], {}),
    ("%x = tt.reshape %a allow_reorder efficient_layout : tensor<8x4xf32> -> tensor<32xf32>", "%a", [block("f32", 32)],
     {"allow_reorder": True, "efficient_layout": True}),
    ("%x = tt.trans %a {order = array<i32: 1, 0>} : tensor<8x4xi8> -> tensor<4x8xi8>", "%a", [block("i8", 4, 8)], {"order": (1, 0)}),
    (f"%x = tt.cat %a, %b : {F} -> tensor<32xf32>", "%a %b", [block("f32", 32)], {}),
    (f"%x = tt.join %a, %b : {F} -> tensor<16x2xf32>", "%a %b", [block("f32", 16, 2)], {}),
    (f"%outLHS, %outRHS = tt.split %a : tensor<16x2xf32> -> {F}", "%a", [FLOATS, FLOATS], {}),
    (f"%x = tt.gather %a[%b] {{axis = 0 : i32}} : ({F}, tensor<8xi32>) -> tensor<8xf32>", "%a %b", [block("f32", 8)],
     {"operands": (1, 1), "axis": 0}),
    ("%x = tt.histogram %a : tensor<16xi32> -> tensor<32xi32>", "%a", [block("i32", 32)], {"operands": (1, 0)}),
    ("%x = tt.histogram %a, %m : tensor<16xi32> -> tensor<32xi32>", "%a %m", [block("i32", 32)], {"operands": (1, 1)}),
    # memory
    (f"%x = tt.addptr %a, %b : {T}, tensor<16xi64>", "%a %b", [POINTERS], {}),
    (f"%x = tt.addptr %a, %b {{tt.divisibility = dense<[16]> : tensor<1xi32>, tt.contiguity = dense<16> : tensor<1xi32>}} : {T}, i32",
     "%a %b", [POINTERS], {"tt.divisibility": (16,), "tt.contiguity": 16}),
    (f"%x = tt.load %p : {T}", "%p", [FLOATS], {"operands": (1, 0, 0)}),
    (f"%x = tt.load %p, %m : {T}", "%p %m", [FLOATS], {"operands": (1, 1, 0)}),
    (f"%x_1 = tt.load %p, %m#1, %a.b#0 cacheModifier = cg evictionPolicy = evict_first {{isVolatile = true}} : {T}", "%p %m#1 %a.b#0",
     [FLOATS], {**ONE_OF_EACH, "cacheModifier": "cg", "evictionPolicy": "evict_first", "isVolatile": True}),
    (f"%x = tt.load %p {{cachePolicy = #tt.cache_policy<cache_modifier = ca, eviction_policy = evict_last>, isVolatile = true}} : {T}",
     "%p", [FLOATS], {"operands": (1, 0, 0), "cacheModifier": "ca", "evictionPolicy": "evict_last", "isVolatile": True}),
    ("%x = tt.load %p : !tt.ptr<i8>", "%p", [Type("i8")], {"operands": (1, 0, 0)}),
    ("%x = tt.load %p : tensor<4x!tt.ptr<!tt.ptr<f32>>>", "%p", [block("ptr", 4, pointee="f32")], {"operands": (1, 0, 0)}),
    ("%x = tt.load %p cacheModifier = ca {boundaryCheck = array<i32: 0, 1>, padding = 2 : i32} : !tt.ptr<tensor<16x32xf16>>", "%p",
     [TILE], {"operands": (1, 0, 0), "cacheModifier": "ca", "boundaryCheck": (0, 1), "padding": 2}),
    (f"tt.store %p, %v : {T}", "%p %v", [], {"operands": (1, 1, 0)}),
    (f"tt.store %p, %v, %m cacheModifier = wb evictionPolicy = evict_last : {T}", "%p %v %m", [],
     {**ONE_OF_EACH, "cacheModifier": "wb", "evictionPolicy": "evict_last"}),
    ("tt.store %p, %v {boundaryCheck = array<i32: 1>} : !tt.ptr<tensor<16x32xf32>>", "%p %v", [],
     {"operands": (1, 1, 0), "boundaryCheck": (1,)}),
    (f"%x = tt.atomic_rmw fadd, acq_rel, gpu, %p, %v, %m : ({T}, {F}, tensor<16xi1>) -> {F}", "%p %v %m", [FLOATS],
     {**ONE_OF_EACH, "kind": "fadd", "sem": "acq_rel", "scope": "gpu"}),
    ("%x = tt.atomic_rmw exch, relaxed, cta, %p, %v : (!tt.ptr<i32>, i32) -> i32", "%p %v", [I32],
     {"operands": (1, 1, 0), "kind": "exch", "sem": "relaxed", "scope": "cta"}),
    ("%x = tt.atomic_cas acquire, sys, %p, %a, %b : (!tt.ptr<i32>, i32, i32) -> i32", "%p %a %b", [I32],
     {"sem": "acquire", "scope": "sys"}),
    ("%x = tt.atomic_load acquire, gpu, %p, %m : (!tt.ptr<i32>, i1) -> i32", "%p %m", [I32],
     {"operands": (1, 1), "sem": "acquire", "scope": "gpu"}),
    ("tt.atomic_store release, gpu, %p, %v, %m : !tt.ptr<i32>", "%p %v %m", [], {**ONE_OF_EACH, "sem": "release", "scope": "gpu"}),
    ("%x = tt.atomic_poll acquire, gpu, %p, %v : !tt.ptr<i32>, i32 -> i1", "%p %v", [I1], {"sem": "acquire", "scope": "gpu"}),
    # descriptors, pointers to blocks
    ("%d = tt.make_tensor_descriptor %p, [%a, %b], [%c, %e] : <f16>, <tensor<16x32xf16>>", "%p %a %b %c %e", [DESCRIPTOR],
     {"operands": (1, 2, 2)}),
    ("%d = tt.make_tensor_descriptor %p, [%a], [%b] {padding = 2 : i32} : !tt.ptr<i32>, !tt.tensordesc<16xsi32>", "%p %a %b",
     [block("desc", 16, pointee="i32")], {**ONE_OF_EACH, "padding": 2}),
    ("%x = tt.descriptor_load %d[%i, %j] : !tt.tensordesc<tensor<16x32xf16>> -> tensor<16x32xf16>", "%d %i %j", [TILE], TWO),
    ("tt.descriptor_store %d[%i, %j], %v : !tt.tensordesc<16x32xf16>, tensor<16x32xf16>", "%d %i %j %v", [], {"operands": (1, 2, 1)}),
    ("tt.descriptor_reduce add, %d[%i, %j], %v : !tt.tensordesc<16x32xf16>, tensor<16x32xf16>", "%d %i %j %v", [],
     {"operands": (1, 2, 1), "kind": "add"}),
    ("%x = tt.descriptor_gather %d[%i, %j] : (!tt.tensordesc<1x32xf16>, tensor<16xi32>, i32) -> tensor<16x32xf16>", "%d %i %j", [TILE],
     TWO),
    ("tt.descriptor_scatter %d[%i, %j], %v : !tt.tensordesc<1x32xf16>, tensor<16xi32>, i32, tensor<16x32xf16>", "%d %i %j %v", [],
     {"operands": (1, 2, 1)}),
    ("%p = tt.make_tensor_ptr %x, [%a, %b], [%c, %d], [%e, %f] {order = array<i32: 1, 0>} : <tensor<16x32xf16>>",
     "%x %a %b %c %d %e %f", [BLOCK_POINTER], {"operands": (1, 2, 2, 2), "order": (1, 0)}),
    ("%q = tt.advance %p, [%a, %b] : <tensor<16x32xf16>>", "%p %a %b", [BLOCK_POINTER], TWO),
    # products
    ("%x = tt.dot %a, %b, %c, inputPrecision = tf32 : tensor<16x8xf16> * tensor<8x32xf16> -> tensor<16x32xf16>", "%a %b %c", [TILE],
     {"inputPrecision": "tf32"}),
    ("%x = tt.dot %a, %b, %c {maxNumImpreciseAcc = 16 : i32} : tensor<16x8xf8E5M2> * tensor<8x32xf8E5M2> -> tensor<16x32xf16>",
     "%a %b %c", [TILE], {"maxNumImpreciseAcc": 16}),
    *[
        (f"%x = tt.dot_scaled %a{a and ' scale %s'}, %b{b and ' scale %t'}, %c lhs = e4m3 rhs = e2m1 {{fastMath = false}} : "
         "tensor<16x64xf8E4M3FN>, tensor<16x2xi8> * tensor<32x32xi8>, tensor<32x2xi8> -> tensor<16x32xf16>",
         f"%a {a} %b {b} %c", [TILE], {"operands": (1, len(a) // 2, 1, len(b) // 2, 1), "lhs": "e4m3", "rhs": "e2m1", "fastMath": False})
        for a in ("", "%s")
        for b in ("", "%t")
    ],
    # strings
    (r'tt.print " x: %, {a} [b] : (c), \22q\22 = #loc(1) -> ^bb1: " {hex = false, isSigned = array<i32: 1, 0>} : %x, %y : i32, f32',
     "%x %y", [], {"prefix": ' x: %, {a} [b] : (c), "q" = #loc(1) -> ^bb1: ', "hex": False, "isSigned": (1, 0)}),
    ('tt.print " nothing" {hex = true, isSigned = array<i32>}', "", [], {"prefix": " nothing", "hex": True, "isSigned": ()}),
    (r'tt.assert %c, "n > 0, \C3\A9 : %n\0A\\ loc(#loc)" : tensor<16xi1>', "%c", [], {"message": "n > 0, é : %n\n\\ loc(#loc)"}),
    (rf'%x:2 = tt.elementwise_inline_asm "\0A{{ .reg .b32 t; mov %, $0 }}" {{constraints = "=r,=r", packed_element = 2 : i32, '
     f"pure = false}} %a, %b : {F}, i32 -> {F}, i32", "%a %b", [FLOATS, I32],
     {"asm": "\n{ .reg .b32 t; mov %, $0 }", "constraints": "=r,=r", "packed_element": 2, "pure": False}),
    ('%x = tt.elementwise_inline_asm "mov.u32 $0, %clock;" {constraints = "=r", packed_element = 1 : i32, pure = true} -> i32', "",
     [I32], {"asm": "mov.u32 $0, %clock;", "constraints": "=r", "packed_element": 1, "pure": True}),
    (f'%x = tt.extern_elementwise %a, %b {{libname = "", libpath = "", pure = true, symbol = "__nv_powf"}} : ({F}, {F}) -> {F}',
     "%a %b", [FLOATS], {"libname": "", "libpath": "", "pure": True, "symbol": "__nv_powf"}),
    (f"%x:2 = tt.call @triton.language.standard.max__fp32S16S_c0(%a) : ({F}) -> (f32, i32)", "%a", [F32, I32],
     {"callee": "triton.language.standard.max__fp32S16S_c0"}),
    ('tt.call @"a.b__(0,)c<x>[%1] : i32"(%a, %b) : (i32, f32) -> ()', "%a %b", [], {"callee": "a.b__(0,)c<x>[%1] : i32"}),
    # arithmetic
    (f"%x = tt.fp_to_fp %a, rounding = rtne : {F} -> tensor<16xf8E4M3FN>", "%a", [block("f8E4M3FN", 16)], {"rounding": "rtne"}),
    (f"%x = tt.int_to_ptr %a : tensor<16xi64> -> {T}", "%a", [POINTERS], {}),
    ("%x = tt.ptr_to_int %a : !tt.ptr<i64> -> i64", "%a", [I64], {}),
    ("%x = tt.bitcast %a : !tt.ptr<i64> -> !tt.ptr<i32>", "%a", [Type("ptr", (), "i32")], {}),
    (f"%x = tt.clampf %a, %b, %c, propagateNan = all : {F}", "%a %b %c", [FLOATS], {"propagateNan": "all"}),
    ("%x = tt.mulhiui %a, %b : tensor<16xi32>", "%a %b", [block("i32", 16)], {}),
    ("%x = tt.precise_sqrt %a : f32", "%a", [F32], {}),
    (f"%x = math.fma %a, %b, %c : {F}", "%a %b %c", [FLOATS], {}),
    ("%x = arith.cmpi slt, %a, %b : tensor<16xi32>", "%a %b", [MASK], {"predicate": "slt"}),
    ("%x = arith.cmpf une, %a, %b fastmath<nnan, ninf> : f32", "%a %b", [I1], {"predicate": "une", "fastmath": ("nnan", "ninf")}),
    ("%x = arith.addi %a, %b overflow<nsw> : i32", "%a %b", [I32], {"overflow": ("nsw",)}),
    ("%x = arith.addi %a, %b {tt.constancy = dense<8> : tensor<1xi32>} : i32", "%a %b", [I32], {"tt.constancy": 8}),
    (f"%x = arith.select %c, %a, %b : tensor<16xi1>, {F}", "%c %a %b", [FLOATS], {}),
    ("%x = arith.select %c, %a, %b : i32", "%c %a %b", [I32], {}),
    ("%x = arith.truncf %a : tensor<16xf32> to tensor<16xf16>", "%a", [block("f16", 16)], {}),
    ("%low, %high = arith.mulsi_extended %a, %b : i32", "%a %b", [I32, I32], {}),
    ("%sum, %carry = arith.addui_extended %a, %b : i32, i1", "%a %b", [I32, I1], {}),
    # others
    (f"%x = ub.poison : {F}", "", [FLOATS], {}),
    ("llvm.intr.assume %c : i1", "%c", [], {}),
    ("gpu.barrier", "", [], {}),
    ("ttg.barrier all", "", [], {"all": True}),
    ("tt.return", "", [], {}),
    ("tt.return %a#0, %c-1_i32 : i32, f32", "%a#0 %c-1_i32", [], {}),
    ("scf.condition(%c) %a, %b : f32, i32", "%c %a %b", [], {}),
    ("ttng.async_tma_copy_global_to_local %d[%i, %j] %t, %b, %p : !tt.tensordesc<64x32xf16, #s>, !ttg.memdesc<1xi64, #s> -> "
     "!ttg.memdesc<64x32xf16, #s>", "%d %i %j %t %b %p", [], {"operands": (1, 2, 1, 1, 1)}),
    ("ttng.init_barrier %b, 2 : !ttg.memdesc<1xi64, #s>", "%b", [], {"count": 2}),
    ("%x = ttng.warp_group_dot_wait %a {pendings = 0 : i32} : tensor<16xf32, #mma>", "%a", [FLOATS], {"pendings": 0}),
    # unknown ones, in the ways that most are printed
    ('%x:2 = new.one %a, 3, "s" fast mode = slow {n = [1 : i32, [2.5, true]], m = #n.kind<a, {b}>, u} : i32 -> (i1, i64)', "%a",
     [I1, I64], {"literals": (3, "s"), "fast": True, "mode": "slow", "n": (1, (2.5, True)), "m": "#n.kind<a, {b}>", "u": True}),
    ('%x = "new.two"(%a, %b, %c) <{operandSegmentSizes = array<i32: 1, 2>, k = "v, w"}> {o = 1 : i64} : (i1, i1, i1) -> i64',
     "%a %b %c", [I64], {"operands": (1, 2), "k": "v, w", "o": 1}),
]  # fmt: skip


@pytest.mark.parametrize("line, operands, results, attributes", FORMS, ids=[each[0][:50] for each in FORMS])
def test_form(line, operands, results, attributes):
    operation = operation_of(line)
    assert operation.name == re.search(r"(?:^| )\"?([a-z]+\.[\w.]+)", line)[1]
    assert operation.operands == tuple(operands.split())
    assert [kind for _, kind in operation.results] == results
    assert dict(operation.attributes) == attributes
    assert operation.place == Place("f.py", 1, 0)


def test_names_of_results():
    def names(line):
        return [name for name, _ in operation_of(line).results]

    assert names("%a.b_1:3 = new.one : i1, i32, f32") == ["%a.b_1#0", "%a.b_1#1", "%a.b_1#2"]
    assert names("%x:2, %y = new.one : i1, i32, f32") == ["%x#0", "%x#1", "%y"]


# ----------------------------------------------------------------------------------------------------- regions, branches


def test_for_with_carried_values():
    loop, end = operations_of("""
    %acc:2 = scf.for %k = %0 to %1 step %2 iter_args(%m_3 = %m, %l_4 = %l#1) -> (tensor<16xf32>, i32)  : i64 {
      %x = arith.addf %m_3, %m_3 : tensor<16xf32> loc(#loc)
      scf.yield %x, %l_4 : tensor<16xf32>, i32 loc(#loc)
    } {tt.num_stages = 3 : i32, tt.flatten} loc(#loc)
    tt.return loc(#loc)""")
    assert (loop.name, end.name) == ("scf.for", "tt.return")
    assert loop.operands == ("%0", "%1", "%2", "%m", "%l#1")
    assert loop.results == (("%acc#0", FLOATS), ("%acc#1", I32))
    assert dict(loop.attributes) == {"tt.num_stages": 3, "tt.flatten": True}
    (((body,)),) = loop.regions
    assert body.arguments == [("%k", I64), ("%m_3", FLOATS), ("%l_4", I32)]
    assert [each.name for each in body.operations] == ["arith.addf", "scf.yield"]


@pytest.mark.parametrize(
    "head, counter, attributes",
    [
        ("scf.for %k = %0 to %1 step %2  : i32", I32, {}),
        ("scf.for unsigned %k = %0 to %1 step %2  : i64", I64, {"unsigned": True}),
        ("scf.for %k = %0 to %1 step %2", Type("index"), {}),
    ],
)
def test_for_without_carried_values(head, counter, attributes):
    (loop,) = operations_of(f"    {head} {{\n    }} loc(#loc)")
    assert (loop.operands, loop.results, dict(loop.attributes)) == (("%0", "%1", "%2"), (), attributes)
    assert loop.regions[0][0].arguments == [("%k", counter)]


def test_for_over_indices_with_a_carried_value():
    (loop,) = operations_of("    %x = scf.for %k = %0 to %1 step %2 iter_args(%a = %b) -> (f32) {\n    } loc(#loc)")
    assert loop.results == (("%x", F32),)
    assert loop.regions[0][0].arguments == [("%k", Type("index")), ("%a", F32)]


def test_while():
    with_values, without = operations_of("""
    %i:2 = scf.while (%a_1 = %a, %n_2 = %n) : (f32, i32) -> (f32, i64) {
      scf.condition(%c) %a_1, %w : f32, i64 loc(#loc)
    } do {
    ^bb0(%a_3: f32 loc("a"(#loc)), %w_4: i64 loc("f.py":3:4)):
      scf.yield %a_3, %n : f32, i32 loc(#loc)
    } loc(#loc)
    scf.while : () -> () {
      scf.condition(%c) loc(#loc)
    } do {
      scf.yield loc(#loc)
    } attributes {tt.hint = 1 : i32} loc(#loc)""")
    assert with_values.operands == ("%a", "%n")
    assert with_values.results == (("%i#0", F32), ("%i#1", I64))
    before, after = with_values.regions
    assert before[0].arguments == [("%a_1", F32), ("%n_2", I32)]
    assert after[0].arguments == [("%a_3", F32), ("%w_4", I64)]
    assert (without.operands, without.results, dict(without.attributes)) == ((), (), {"tt.hint": 1})
    assert [region[0].arguments for region in without.regions] == [[], []]


def test_if():
    valued, alone, both = operations_of("""
    %z:2 = scf.if %c -> (f32, i32) {
      scf.yield %a, %n : f32, i32 loc(#loc)
    } else {
      scf.if %d {
        tt.store %p, %a : !tt.ptr<f32> loc(#loc)
      } loc(#loc)
      scf.yield %b, %n : f32, i32 loc(#loc)
    } loc(#loc)
    scf.if %d {
    } loc(#loc)
    scf.if %d {
    } else {
    } {hint = true} loc(#loc)""")
    assert valued.results == (("%z#0", F32), ("%z#1", I32))
    assert [[each.name for each in region[0].operations] for region in valued.regions] == [
        ["scf.yield"],
        ["scf.if", "scf.yield"],
    ]
    assert (alone.operands, len(alone.regions), dict(alone.attributes)) == (("%d",), 1, {})
    assert (len(both.regions), dict(both.attributes)) == (2, {"hint": True})


def test_reduce_scan_and_map():
    reduce, scan, mapped = operations_of("""
    %r:2 = "tt.reduce"(%a, %b) <{axis = 1 : i32}> ({
    ^bb0(%x: f32 loc("m"(#loc)), %i: i32 loc(unknown), %y: f32 loc(callsite("f.py":1:2 at "g"(#loc))), %j: i32 loc(#loc)):
      tt.reduce.return %x, %i : f32, i32 loc(#loc)
    }) : (tensor<4x16xf32>, tensor<4x16xi32>) -> (tensor<4xf32>, tensor<4xi32>) loc(#loc)
    %s = "tt.scan"(%a) <{axis = 0 : i32, reverse = true}> ({
    ^bb0(%x: f32 loc(#loc), %y: f32 loc(#loc)):
      tt.scan.return %x : f32 loc(#loc)
    }) : (tensor<16xf32>) -> tensor<16xf32> loc(#loc)
    %w = "tt.map_elementwise"(%a) <{pack = 1 : i32}> ({
    ^bb0(%x: f32 loc(#loc)):
      cf.br ^bb1(%x, %x : f32, f32) loc(#loc)
    ^bb1(%y: f32 loc(#loc), %z: f32 loc(#loc)):  // pred: ^bb0
      tt.map_elementwise.return %y : f32 loc(#loc)
    }) : (tensor<16xf32>) -> tensor<16xi32> loc(#loc)""")
    assert reduce.operands == ("%a", "%b")
    assert reduce.results == (("%r#0", block("f32", 4)), ("%r#1", block("i32", 4)))
    assert dict(reduce.attributes) == {"axis": 1}
    assert reduce.regions[0][0].arguments == [("%x", F32), ("%i", I32), ("%y", F32), ("%j", I32)]
    assert (scan.results, dict(scan.attributes)) == ((("%s", FLOATS),), {"axis": 0, "reverse": True})
    assert mapped.results == (("%w", block("i32", 16)),)
    first, second = mapped.regions[0]
    assert [(each.label, [kind for _, kind in each.arguments]) for each in (first, second)] == [
        ("^bb0", [F32]),
        ("^bb1", [F32, F32]),
    ]
    ((passed, _),) = first.arguments  # a name of its own: other regions have a %x as well
    assert first.operations[0].successors == (("^bb1", (passed, passed)),)


def test_branches():
    (function,) = parse(
        module_of(
            """
    %c = arith.constant true loc(#loc)
    cf.cond_br %c, ^bb1(%n, %x : i32, tensor<16x!tt.ptr<f32>>), ^bb2 loc(#loc)
  ^bb1(%m: i32 loc("m"(#loc)), %y: tensor<16x!tt.ptr<f32>> loc(#loc)):  // 2 preds: ^bb0, ^bb2
    cf.br ^bb3 loc(#loc)
  ^bb2:  // pred: ^bb0
    cf.br ^bb1(%n, %x : i32, tensor<16x!tt.ptr<f32>>) loc(#loc)
  ^bb3:  // no predecessors
    cf.switch %n : i32, [
      default: ^bb3,
      42: ^bb1(%n, %x : i32, tensor<16x!tt.ptr<f32>>)
    ] loc(#loc)""",
            '%n: i32 {tt.divisibility = 16 : i32} loc("n"(#loc)), %x: tensor<16x!tt.ptr<f32>> loc("x"(#loc))',
        )
    ).values()
    arguments = [I32, POINTERS]
    assert [(each.label, [kind for _, kind in each.arguments]) for each in function.blocks] == [
        ("^bb0", arguments),
        ("^bb1", arguments),
        ("^bb2", []),
        ("^bb3", []),
    ]
    assert function.arguments == function.blocks[0].arguments == [("%n", I32), ("%x", POINTERS)]
    ends = [each.operations[-1] for each in function.blocks]
    assert [(end.operands, end.successors) for end in ends] == [
        (("%c",), (("^bb1", ("%n", "%x")), ("^bb2", ()))),
        ((), (("^bb3", ()),)),
        ((), (("^bb1", ("%n", "%x")),)),
        (("%n",), (("^bb3", ()), ("^bb1", ("%n", "%x")))),
    ]


def test_partitions_of_gluon():
    aliases = "#mma = #ttg.nvidia_mma<{versionMajor = 3}>\n#slice = #ttg.slice<{dim = 1, parent = #mma}>\n"
    (partitions,) = operations_of(
        """
    ttg.warp_specialize(%a, %0#1) attributes {requestedRegisters = array<i32: 240, 24>}
    default {
      ttg.warp_yield loc(#loc)
    }
    partition0(%x: !ttg.memdesc<4xi64, #slice, mutable> loc(unknown), %y: i32 loc(unknown)) num_warps(4) {
      ttng.barrier_expect %x, 16384, %true : !ttg.memdesc<4xi64, #slice, mutable> loc(#loc)
      ttg.warp_return loc(#loc)
    }
    partition1() num_warps(1) {
      ttg.warp_return loc(#loc)
    } : (!ttg.memdesc<4xi64, #slice, mutable>, i32) -> () loc(#loc)""",
        aliases=aliases,
    )
    memory = Type("!ttg.memdesc<4xi64, #ttg.slice<{dim = 1, parent = #ttg.nvidia_mma<{versionMajor = 3}>}>, mutable>")
    assert partitions.operands == ("%a", "%0#1")
    assert dict(partitions.attributes) == {"requestedRegisters": (240, 24), "num_warps": (4, 1)}
    assert [region[0].arguments for region in partitions.regions] == [[], [("%x", memory), ("%y", I32)], []]
    expect = partitions.regions[1][0].operations[0]
    assert (expect.operands, dict(expect.attributes)) == (("%x", "%true"), {"size": 16384})


# ----------------------------------------------------------------------------------------------------- functions, places


def test_functions():
    text = """module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @kernel() attributes {noinline = false} {
    tt.return loc(#loc)
  } loc("k.py":1:2)
  tt.func private @"a.b__(0,)c<x>[%1: i32] {"(%x: tensor<16xf32> loc("x"(#loc))) -> (f32, i32) attributes {noinline = false} {
    tt.return loc(#loc)
  } loc(#loc2)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("a b/\\C3\\A9 (1).py":30:4)
"""
    kernel, helper = parse(text).values()
    assert (kernel.name, kernel.public, kernel.arguments, kernel.place) == ("kernel", True, [], Place("k.py", 1, 2))
    assert (helper.name, helper.public) == ("a.b__(0,)c<x>[%1: i32] {", False)
    assert (helper.arguments, helper.place) == ([("%x", FLOATS)], Place("a b/é (1).py", 30, 4))
    assert list(parse(text)) == ["kernel", helper.name]


@pytest.mark.parametrize(
    "location, place",
    [
        ('"/a b/c.py":3:4', Place("/a b/c.py", 3, 4)),
        ('"<ipython-input-3-0af>":3:4', Place("<ipython-input-3-0af>", 3, 4)),
        ('"<cell 3>":12:0', Place("<cell 3>", 12, 0)),
        ('"a (b), [c] at \\22d\\22 loc(#loc).py":1:2', Place('a (b), [c] at "d" loc(#loc).py', 1, 2)),
        ('"f.py":3:4 to :9', Place("f.py", 3, 4)),
        ('"x"("f.py":3:4)', Place("f.py", 3, 4, "x")),
        ('"x"', Place("", 0, 0, "x")),
        ('"gr\\C3\\B6\\C3\\9Fe"(#loc7)', Place("g.py", 7, 8, "größe")),
        ("#loc7", Place("g.py", 7, 8)),
        ("#loc8", Place("g.py", 7, 8, "y")),
        ('"outer"("x"(#loc7))', Place("g.py", 7, 8, "x")),
        ('"outer"(#loc8)', Place("g.py", 7, 8, "y")),
        ("callsite(#loc8 at #loc)", Place("g.py", 7, 8, "y")),
        ('callsite("a at b.py":1:2 at callsite(#loc7 at "c.py":5:6))', Place("a at b.py", 1, 2)),
        ('callsite(callsite("a.py":1:2 at #loc7) at "c.py":5:6)', Place("a.py", 1, 2)),
        ('"x"(callsite("a.py":1:2 at #loc7))', Place("a.py", 1, 2, "x")),
        ('fused[#loc9, "a, b.py":1:2, #loc7]', Place("a, b.py", 1, 2)),
        ('fused<"[why]">[#loc8]', Place("g.py", 7, 8, "y")),
        ("unknown", Place()),
        ("#loc9", Place()),
        ("#loc99", Place()),
    ],
)
def test_place(location, place):
    aliases = '#loc7 = loc("g.py":7:8)\n#loc8 = loc("y"(#loc7))\n#loc9 = loc(unknown)\n'
    (direct,) = operations_of(f"    tt.return loc({location})", aliases=aliases)
    (by_alias,) = operations_of("    tt.return loc(#loc10)", aliases=f"{aliases}#loc10 = loc({location})\n")
    assert direct.place == by_alias.place == place


# ----------------------------------------------------------------------------------------------------- unknown forms


@pytest.mark.parametrize(
    "line, operation",
    [
        ("%x = tt.new_thing %a", "tt.new_thing"),
        ("%x = arith.constant dense<> : tensor<0xq", "arith.constant"),
        ("%x:3 = tt.new_thing %a : i32, i64 -> i32, i64", "tt.new_thing"),
    ],
)
def test_unknown_form(line, operation):
    with pytest.raises(Unparsed) as unknown:
        operation_of(line)
    assert says(unknown.value, "launch.text.form", operation=operation, file="f.py", line=1, column=0)
    assert line.partition(operation)[2] == unknown.value.message.parameters["text"]


@pytest.mark.parametrize(
    "text, id, line",
    [
        (module_of("    what is this loc(#loc)"), "no_operation", "what is this loc(#loc)"),
        (module_of("    tt.return"), "no_place", "tt.return"),
        (module_of("    %x = ub.poison : i32\n    tt.return loc(#loc)"), "no_place", "%x = ub.poison : i32"),
        (module_of("    scf.if %c {\n    tt.return loc(#loc)\n    } loc(#loc)")[:-40], "no_end", None),
        ("module {\n  llvm.func @f()\n}", "no_function", "llvm.func @f()"),
    ],
)
def test_text_that_is_no_module(text, id, line):
    with pytest.raises(Unparsed) as unknown:
        parse(text)
    assert says(unknown.value, f"launch.text.{id}") and unknown.value.message.parameters.get("line") == line


# ----------------------------------------------------------------------------------------------------- what front ends print


def lines_of_operations(text):
    return len(re.findall(r'^ +(?:%[^=]* = )?"?(?!tt\.func)[a-z_]+\.[a-z_]', text, re.MULTILINE))


def checked(text):
    """(module, names of operations, operations) of this text, once each line is there and types agree with each other."""
    module = parse(text)
    found = [operation for function in module.values() for operation in walk(function.blocks)]
    assert len(found) == lines_of_operations(text) > 0
    assert sum(function.public for function in module.values()) == 1
    for function in module.values():
        _check_types(module, function)
    return module, {operation.name for operation in found}, found


SAME = re.compile(
    r"(arith|math)\.(?!cmp|select|constant|\w*cast|ext|trunc|[us]itofp|fpto)|tt\.(precise_|mulhiui|clampf)"
)
ELEMENT = re.compile(r"i\d+|b?f\d+|f8E\w+|ptr|block_ptr|desc|!ttg\.memdesc<.*>")


def _check_types(module, function):
    kinds = {}  # of values: names are used again in the next region

    def check(blocks):
        """The types of what the region hands over."""
        arguments = {each.label: [kind for _, kind in each.arguments] for each in blocks}
        for each in blocks:
            kinds.update(each.arguments)
            for operation in each.operations:
                operands = [kinds[name] for name in operation.operands]  # each is defined before
                results = [kind for _, kind in operation.results]
                assert all(ELEMENT.fullmatch(kind.element) for kind in results), operation
                for label, passed in operation.successors:
                    assert [kinds[name] for name in passed] == arguments[label]
                ends = [check(region) for region in operation.regions]
                _check_operation(module, operation, operands, results, ends)
                kinds.update(operation.results)
        last = blocks[-1].operations[-1:]  # a yield of nothing is not printed
        return [kinds[name] for end in last if end.name in ("scf.yield", "scf.condition") for name in end.operands]

    check(function.blocks)
    ends = [operation for operation in walk(function.blocks) if operation.name == "tt.return"]
    assert len({tuple(kinds[name] for name in operation.operands) for operation in ends}) == 1


def _check_operation(module, operation, operands, results, ends):
    taken = [[kind for _, kind in region[0].arguments] for region in operation.regions]
    if SAME.match(operation.name):
        assert {*operands, *results} == {operands[0]}
    elif operation.name in ("tt.load", "tt.store") and operands[0].element == "ptr":
        pointer = operands[0]
        value, mask = Type(pointer.pointee, pointer.shape), block("i1", *pointer.shape)
        expected = [pointer, mask, value] if results else [pointer, value, mask]
        assert operands == expected[: len(operands)] and results in ([], [value])
        assert sum(operation.attributes["operands"]) == len(operands)
    elif operation.name == "tt.call":
        assert operands == [kind for _, kind in module[operation.attributes["callee"]].arguments]
    elif operation.name == "scf.for":
        assert operands[3:] == results == taken[0][1:] == ends[0]
        assert {*operands[:3]} == {taken[0][0]}
    elif operation.name == "scf.while":
        assert operands == taken[0] == ends[1] and results == taken[1] == ends[0][1:]
    elif operation.name == "scf.if":
        assert operands == [I1] and all(end == results for end in ends)
    elif operation.name == "arith.cmpi":
        assert results == [block("i1", *operands[0].shape)]
    elif operation.name == "arith.select":
        assert operands[1:] == results * 2


def specialised(kernel, arguments, constants):
    """(signature, constants) as ASTSource takes them."""
    bound = kernel.signature.bind(
        *arguments, **{name: constants[name] for name in constants if name in kernel.arg_names}
    )
    fixed = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
    signature = {name: "constexpr" if name in fixed else mangle_type(value) for name, value in bound.arguments.items()}
    return signature, {name: bound.arguments[name] for name in fixed if name in bound.arguments}


@triton.jit
def masks_and_policies(x, y, n):
    o = tl.arange(0, 16)
    c = tl.load(x + o, mask=o < n, other=1.0, cache_modifier=".cg", eviction_policy="evict_first", volatile=True)
    d = tl.load(x + o, mask=o < n) + tl.load(x + o) + tl.load(x) + tl.load(x, mask=n > 3, other=2.0)
    tl.store(x + o, c, cache_modifier=".wb", eviction_policy="evict_last")
    tl.store(x + o, d, mask=o < n)
    tl.store(x, 1)


@triton.jit
def atomics(x, y, n):
    o = tl.arange(0, 16)
    m = o < n
    a = tl.atomic_add(x + o, 1.0, mask=m)
    b = tl.atomic_max(y + o, o, sem="relaxed", scope="cta")
    tl.atomic_max(x + o, a)
    tl.atomic_and(y + o, o, mask=m)
    tl.atomic_xchg(y + o, o, sem="release", scope="sys")
    tl.atomic_add(y, tl.atomic_cas(y, 0, 1))
    tl.store(y + o, tl.atomic_cas(y + o, o, b, sem="acquire"))


@triton.jit
def newer_atomics(x, y, n):
    o = tl.arange(0, 16)
    tl.atomic_store(y + o, tl.atomic_load(y + o, mask=o < n))
    tl.atomic_store(y, tl.atomic_load(y))
    tl.atomic_poll(y, n)


@triton.jit
def descriptors(x, y, n):
    d = tl.make_tensor_descriptor(y, [n, 64], [64, 1], [16, 32])
    v = d.load([n, 0])
    d.store([0, n], v)
    d.atomic_add([0, 0], v)
    e = tl.make_tensor_descriptor(x, [n, 64], [64, 1], [1, 32])
    e.scatter(e.gather(tl.arange(0, 8), 16), tl.arange(0, 8), n)
    f = tl.make_tensor_descriptor(x, [n], [1], [16])
    f.store([0], f.load([4]))


@triton.jit
def block_pointers(x, y, n):
    p = tl.make_block_ptr(x, (n, 64), (64, 1), (0, 0), (16, 32), (1, 0))
    v = tl.load(p) + tl.load(p, boundary_check=(0, 1), padding_option="zero")
    for _ in range(n):
        p = tl.advance(p, (0, 16))
        tl.store(p, v, boundary_check=(1,))


REORDERS = tl.constexpr(VERSION < (3, 9))  # from 3.9 on cat keeps the order, and refuses to be allowed another


@triton.jit
def shapes(x, y, n):
    o, w = tl.arange(0, 16), tl.arange(0, 32)
    v, i = tl.load(x + o), tl.load(y + o)
    tl.store(x + o, tl.gather(v, i, 0))
    tl.store(y + w, tl.histogram(i, 32) + tl.histogram(i, 32, mask=o < n))
    a, b = tl.split(tl.join(v, v * 2))
    r = tl.reshape(tl.cat(a, b, can_reorder=REORDERS), (8, 4))
    t = tl.permute(tl.reshape(tl.trans(r), (4, 8), can_reorder=True), (1, 0))
    tl.store(x + w, tl.reshape(t[None, :, :], (32,)))
    tl.store(y + o, v.to(tl.int32, bitcast=True))
    tl.store(x + o, tl.flip(v, 0) + tl.sort(v) + tl.broadcast_to(tl.load(x), (16,)))
    tl.store(x + w, tl.interleave(v, v))
    tl.store(x + o, tl.rand(3, o))


@triton.jit
def conversions(x, y, n, half, brain, e4, e5, double, byte, word):
    o = tl.arange(0, 16)
    v = tl.load(x + o)
    tl.store(half + o, v.to(tl.float16))
    tl.store(half + o, v.to(tl.float16, fp_downcast_rounding="rtz"))
    tl.store(brain + o, v.to(tl.bfloat16))
    tl.store(e4 + o, v.to(tl.float8e4nv))
    tl.store(e5 + o, v.to(tl.float8e5))
    tl.store(double + o, v.to(tl.float64))
    tl.store(byte + o, v.to(tl.int8))
    tl.store(word + o, v.to(tl.uint32))
    tl.store(
        x + o, tl.load(byte + o).to(tl.float32) + tl.load(word + o).to(tl.float32) + tl.load(e4 + o).to(tl.float32)
    )
    tl.store(y + o, tl.load(byte + o).to(tl.int64).to(tl.int16))
    tl.store((x + o).to(tl.int64).to(tl.pointer_type(tl.float32)), v)
    tl.store(x.to(tl.pointer_type(tl.int32)), 1)


@triton.jit
def arithmetic(x, y, n, word):
    o = tl.arange(0, 16)
    v, i, u = tl.load(x + o), tl.load(y + o), tl.load(word + o)
    w = tl.exp(v) + tl.exp2(v) + tl.log(v) + tl.log2(v) + tl.sin(v) + tl.cos(v) + tl.sqrt(v) + tl.sqrt_rn(v)
    w += tl.rsqrt(v) + tl.erf(v) + tl.abs(v) + tl.floor(v) + tl.ceil(v) + tl.fma(v, v, w) + tl.div_rn(v, w)
    w += tl.clamp(v, 0.0, 1.0) + tl.maximum(w, v, propagate_nan=tl.PropagateNan.ALL) + tl.minimum(w, v)
    tl.store(x + o, w % v - (-v) + libdevice.tanh(v) + libdevice.pow(v, w))
    j = i + i // 3 - i % 5 * 2 & 7 | 8 ^ i << 2 >> 1
    tl.store(y + o, tl.where(i > j, ~j, tl.abs(i)) + tl.minimum(i, j) + tl.maximum(i, j))
    u = u // 3 + u % 5 + (u >> 2) + tl.umulhi(u, u) + tl.minimum(u, 7)
    tl.store(word + o, tl.where((v > 1.0) & (v < 2.0) | (v >= w) & (v <= w) | (v == w) | (v != w) | (u > 3), u, u))


@triton.jit
def constants(x, y, n):
    o = tl.arange(0, 16)
    v = tl.full((16,), float("inf"), tl.float16) + tl.full((16,), float("-inf"), tl.bfloat16) + 1e-45
    tl.store(x + o, tl.where(o > 0, v, float("nan")) + tl.full((16,), True, tl.int1))
    tl.store(y + o, tl.full((16,), 0xFFFFFFFF, tl.uint32) + tl.full((16,), -5, tl.int64) + (1 << 40))


@triton.jit
def larger(a, i, b, j):
    return tl.where(a > b, a, b), tl.where(a > b, i, j)


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def reductions(x, y, n):
    o = tl.arange(0, 16)
    at = o[:, None] * 16 + o[None, :]
    v = tl.load(x + at)
    m, i = tl.max(v, axis=1, return_indices=True)
    tl.store(x + o, tl.sum(v, axis=0) + tl.max(v, axis=1) + tl.min(v) + m)
    tl.store(y + o, tl.argmax(v, axis=1) + i)
    m, i = tl.reduce((v, at), 1, larger)
    tl.store(x + o, m + tl.reduce(v, None, product))
    p, q = tl.associative_scan((v, at), 0, larger)
    tl.store(x + at, p + tl.associative_scan(v, 0, product) + tl.cumsum(v, 1, reverse=True))


@triton.jit
def products(x, y, n, half):
    o, w = tl.arange(0, 16), tl.arange(0, 32)
    a, b = tl.load(half + o[:, None] * 16 + o[None, :]), tl.load(x + o[:, None] * 16 + o[None, :])
    c = tl.dot(b, b, tl.dot(a, a), input_precision="ieee") + tl.dot(b, b, input_precision="tf32x3")
    e = tl.load(half + o[:, None] * 32 + w[None, :]).to(tl.float8e5)
    c = tl.dot(e, tl.trans(e), c, max_num_imprecise_acc=16)
    tl.store(x + o[:, None] * 16 + o[None, :], c)


@triton.jit
def scaled_products(x, y, n, byte):
    m, k = tl.arange(0, 128), tl.arange(0, 64)
    a, b = tl.load(byte + m[:, None] * 64 + k[None, :]), tl.load(byte + k[:, None] * 128 + m[None, :])
    s = tl.load(byte + m[:, None] * 2 + tl.arange(0, 2)[None, :])
    c = tl.dot_scaled(a, s, "e4m3", b, None, "e4m3", tl.dot_scaled(a, s, "e4m3", b, s, "e5m2"))
    tl.store(x + m[:, None] * 128 + m[None, :], tl.dot_scaled(a, None, "e4m3", b, s, "e4m3", c))


@triton.jit
def messages(x, y, n):
    v = tl.load(x + tl.arange(0, 16))
    tl.device_print('x: %, {a} [b] : (c) "q" ', v)
    tl.device_print("both: ", n, v, hex=True)
    tl.device_print("nothing")
    tl.device_assert(n > 0, 'n > 0, {not} : %n "is"')
    tl.device_assert(v > 0.0, "größer")
    tl.assume(n > 2)
    tl.debug_barrier()


@triton.jit
def assembly(x, y, n):
    o = tl.arange(0, 16)
    v = tl.load(y + o)
    w = tl.inline_asm_elementwise('shl.b32 $0, $0, 3; // %x\n "u" ', "=r,r", [v], dtype=tl.int32, is_pure=True, pack=1)
    a, b = tl.inline_asm_elementwise(
        "{ .reg .b32 t; }", "=r,=r,r,r", [v, w], dtype=(tl.int32, tl.float32), is_pure=False, pack=2
    )
    c = tl.inline_asm_elementwise("mov.u32 $0, %clock;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(y + o, a + c)
    tl.store(x + o, b)


@triton.jit
def early(x, n):
    if n > 3:
        return n
    return n + 1


@triton.jit
def control(x, y, n, long, unsigned, f, b):
    if n == 7:
        return
    a, i = 0.0, n
    while i < 100:
        i, a = i * 2, a + 1.0
    while tl.load(x) > 0.0:
        tl.store(x, 0.0)
    for j in range(n):
        a += j
    for j in range(0, long, 3):
        tl.store(x + j, a)
    for j in range(unsigned):
        tl.store(x + j, a)
    for _ in tl.range(0, n, num_stages=3, flatten=True):
        a *= 2
    for j in range(n, 0, -1):
        if j > 5:
            a += 1
            i = 3
        elif b:
            a -= 2
        else:
            i += 2
    if f > 1.0:
        tl.store(x, a)
    tl.store(x + i, (a if b else f) + early(x, n))
    if b:
        return
    tl.store(x, 7.0)


@triton.jit
def hints(x, y, n):
    n = tl.multiple_of(n, 16)
    o = tl.max_contiguous(tl.multiple_of(n + tl.arange(0, 16), 16), 16)
    c = tl.max_constancy(o // 8, 8)
    p = tl.max_contiguous(tl.multiple_of(x + o[:, None] + c[None, :], (16, 1)), (1, 16))
    tl.store(p, tl.program_id(2) + tl.num_programs(1))


@triton.jit
def sign(a, b):
    if a < b:
        return -1
    return 1


@triton.jit
def sum_and_difference(a, b):
    return a + b, a - b


@triton.jit
def mapped(x, y, n):
    o = tl.arange(0, 16)
    w = tl.map_elementwise(sign, tl.load(y + o), o)
    a, b = tl.map_elementwise(sum_and_difference, w, o)
    tl.store(y + o, a + b)


BASE = {"x": "*fp32", "y": "*i32", "n": "i32"}
PRINTED = [  # kernel, its arguments besides BASE, some of what its module must have, whether this Triton has the language for it
    (masks_and_policies, {}, "tt.load tt.store", True),
    (atomics, {}, "tt.atomic_rmw tt.atomic_cas", True),
    (newer_atomics, {}, "tt.atomic_load tt.atomic_store tt.atomic_poll", hasattr(tl, "atomic_poll")),
    (descriptors, {}, "tt.make_tensor_descriptor tt.descriptor_load tt.descriptor_store tt.descriptor_reduce tt.descriptor_gather "
     "tt.descriptor_scatter", True),
    (block_pointers, {}, "tt.make_tensor_ptr tt.advance" if VERSION < (3, 8) else "tt.addptr", VERSION < (3, 9)),
    (shapes, {}, "tt.gather tt.histogram tt.split tt.join tt.cat tt.reshape tt.trans tt.expand_dims tt.broadcast tt.splat", True),
    (conversions,
     {"half": "*fp16", "brain": "*bf16", "e4": "*fp8e4nv", "e5": "*fp8e5", "double": "*fp64", "byte": "*i8", "word": "*u32"},
     "tt.fp_to_fp tt.int_to_ptr tt.ptr_to_int tt.bitcast arith.truncf arith.extf arith.trunci arith.extsi arith.sitofp arith.uitofp "
     "arith.fptosi arith.fptoui", True),
    (arithmetic, {"word": "*u32"}, "math.exp math.erf math.fma math.rsqrt tt.precise_sqrt tt.precise_divf tt.clampf tt.mulhiui "
     "arith.cmpf arith.cmpi arith.select arith.divsi arith.divui arith.remsi arith.remui arith.remf arith.xori arith.shrsi arith.shrui "
     "arith.maximumf arith.minnumf tt.extern_elementwise", True),
    (constants, {}, "arith.constant", True),
    (reductions, {}, "tt.reduce tt.reduce.return tt.scan tt.scan.return tt.call", True),
    (products, {"half": "*fp16"}, "tt.dot", True),
    (scaled_products, {"byte": "*u8"}, "tt.dot_scaled", True),
    (messages, {}, "tt.print tt.assert llvm.intr.assume", True),
    (assembly, {}, "tt.elementwise_inline_asm", True),
    (control, {"long": "i64", "unsigned": "u32", "f": "fp32", "b": "i1"},
     "scf.for scf.while scf.condition scf.if scf.yield cf.br cf.cond_br ub.poison tt.call", True),
    (hints, {}, "tt.get_program_id tt.get_num_programs", True),
    (mapped, {}, "tt.map_elementwise tt.map_elementwise.return", hasattr(tl, "map_elementwise")),
]  # fmt: skip


def made(kernel, more=(), **options):
    return make_module(kernel, BASE | dict(more), {}, {}, options, TARGET)


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated", "ignore:.*can_reorder=True. is deprecated")
@pytest.mark.parametrize("kernel, more, expected, there", PRINTED, ids=[each[0].__name__ for each in PRINTED])
def test_printed_by_this_triton(kernel, more, expected, there):
    if not there:
        pytest.skip(f"not in the language of Triton {triton.__version__}")
    _, names, _ = checked(made(kernel, more, debug=True))
    assert set(expected.split()) <= names


def attributes_of(kernel, name, more=(), **options):
    return [dict(each.attributes) for each in checked(made(kernel, more, **options))[2] if each.name == name]


def test_attributes_of_printed_operations():
    assert [each["operands"] for each in attributes_of(masks_and_policies, "tt.load")] == [
        (1, 1, 1),
        (1, 1, 0),
        (1, 0, 0),
        (1, 0, 0),
        (1, 1, 1),
    ]
    first, second, _ = attributes_of(masks_and_policies, "tt.store")
    assert (first["cacheModifier"], first["evictionPolicy"]) == ("wb", "evict_last")
    assert second == {"operands": (1, 1, 1)}
    assert attributes_of(atomics, "tt.atomic_rmw")[1] == {
        "operands": (1, 1, 1),
        "kind": "max",
        "sem": "relaxed",
        "scope": "cta",
    }
    assert [(each["prefix"].strip(), each["hex"]) for each in attributes_of(messages, "tt.print", debug=True)] == [
        ('x: %, {a} [b] : (c) "q":', False),
        ("both:", True),
        ("nothing", False),
    ]
    assert [each["message"] for each in attributes_of(messages, "tt.assert", debug=True)] == [
        'n > 0, {not} : %n "is"',
        "größer",
    ]
    assert [each["asm"] for each in attributes_of(assembly, "tt.elementwise_inline_asm")] == [
        'shl.b32 $0, $0, 3; // %x\n "u" ',
        "{ .reg .b32 t; }",
        "mov.u32 $0, %clock;",
    ]
    assert attributes_of(hints, "arith.divsi") == [{"tt.constancy": 8}]
    assert {"tt.contiguity": (1, 16), "tt.divisibility": (16, 1)} in attributes_of(hints, "tt.addptr")
    assert attributes_of(hints, "tt.get_program_id") == [{"axis": 2}]
    assert [each["operands"] for each in attributes_of(scaled_products, "tt.dot_scaled", {"byte": "*u8"})] == [
        (1, 1, 1, 1, 1),
        (1, 1, 1, 0, 1),
        (1, 0, 1, 1, 1),
    ]
    values = [each["value"] for each in attributes_of(constants, "arith.constant")]
    assert {math.inf, -math.inf, 1 << 40, -5, -1, True} <= set(values) and any(v != v for v in values)


def test_places_of_a_file_with_an_odd_name(tmp_path):
    file = tmp_path / "a folder (1), [é]" / "kérnel at.py"
    file.parent.mkdir()
    file.write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(x, y, n):\n"
        "    größe = tl.load(x)\n    other = größe\n    tl.store(x, other + größe)\n",
        encoding="utf-8",
    )
    spec = importlib.util.spec_from_file_location("odd", file)
    odd = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(odd)
    module, _, found = checked(made(odd.kernel))
    assert {operation.place.file for operation in found} == {module["kernel"].place.file} == {str(file)}
    assert module["kernel"].place.line == 6
    load, add, store = (each for each in found if each.name != "tt.return")
    assert [each.place.line for each in (load, add, store)] == [7, 9, 9]
    assert [each.place.name for each in (load, add, store)] == ["größe" if VERSION >= (3, 5) else "", "", ""]


def test_gluon():
    """Hopper's language: 37 functions, of which 946 operations are left without checks of overflow."""
    try:
        import runs
        from triton.experimental.gluon import language as gl
        from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor

        kernel = runs.module_of(runs.ATTENTION).overlapped
        layout = gl.NVMMASharedLayout.get_default_for([64, 128], gl.float16)
        q = torch.empty(256, 128, dtype=torch.float16)
        arguments = [GluonDescriptor.from_tensor(q, [rows, 128], layout) for rows in (64, 128, 128, 64)]
        arguments += [torch.empty(256), 1.0, 256, 2, True]
        signature, constants = specialised(kernel, arguments, {})
        texts = [
            make_module(kernel, signature, constants, {}, {"num_warps": 4, **more}, TARGET)
            for more in ({}, {"sanitize_overflow": True})
        ]
    except (AttributeError, CompilationError, ImportError) as error:
        pytest.skip(f"Gluon of Triton {triton.__version__} is another language: {type(error).__name__}")
    for text, count in zip(texts, (946, 1946), strict=True):
        module, names, found = checked(text)
        assert (len(module), len(found)) == (37, count)
        assert {"ttg.warp_specialize", "ttng.warp_group_dot", "ttng.wait_barrier", "ttg.memdesc_index"} <= names
    (split,) = (operation for operation in found if operation.name == "ttg.warp_specialize")
    assert [len(region[0].arguments) for region in split.regions] == [0, len(split.operands), len(split.operands)]
    assert split.attributes["requestedRegisters"] == (240, 24)
    copy = next(operation for operation in found if operation.name == "ttng.async_tma_copy_global_to_local")
    assert copy.attributes["operands"] == (1, 2, 1, 1, 1)


# ----------------------------------------------------------------------------------------------------- the front end


@triton.jit
def wrong_in_a_loop(x, y, n):
    for _ in range(n):
        if tl.load(x) > 0:
            tl.store(x, tl.dot(tl.arange(0, 16), n))


@triton.jit
def wrong_in_a_region(x, y, n):
    tl.store(x, tl.reduce(tl.arange(0, 16), 0, not_there))  # noqa: F821


def test_what_fails_leaves_nothing_behind():
    before = [made(kernel, more) for kernel, more, *_ in (PRINTED[0], PRINTED[9])]
    for _ in range(3):
        for kernel in (wrong_in_a_loop, wrong_in_a_region):
            with pytest.raises(CompilationError):
                made(kernel)
    assert [made(kernel, more) for kernel, more, *_ in (PRINTED[0], PRINTED[9])] == before


@triton.jit
def add(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask), mask=mask)


@triton.jit
def copy_by_descriptor(x, o, BLOCK: tl.constexpr):
    at = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
    o.store(at, x.load(at))


def test_options_constants_and_hints_reach_the_front_end():
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "o_ptr": "*fp32", "n": "constexpr", "BLOCK": "constexpr"}
    constants, hints_of_x = {"n": 1, "BLOCK": 32}, {(0,): [["tt.divisibility", 16]]}
    text = make_module(add, signature, constants, hints_of_x, {"num_warps": 8, "num_stages": 1}, TARGET)
    assert len(parse(text)["add"].arguments) == 3
    assert len(re.findall(r"tt\.divisibility = 16", text)) == 1
    sizes = [
        kind.shape for op in walk(parse(text)["add"].blocks) for _, kind in op.results if op.name == "tt.make_range"
    ]
    assert sizes == [(32,)]
    checks = make_module(add, signature, constants, {}, {"sanitize_overflow": True, "debug": True}, TARGET)
    assert "tt.assert" in checks and "tt.assert" not in text


def test_descriptors_of_the_host():
    descriptor = TensorDescriptor.from_tensor(torch.empty(64, 64), [16, 32])
    signature, constants = specialised(copy_by_descriptor, [descriptor, descriptor], {"BLOCK": 16})
    module, _, found = checked(make_module(copy_by_descriptor, signature, constants, {}, {}, TARGET))
    kinds = [kind for _, kind in module["copy_by_descriptor"].arguments]
    assert kinds == [block("desc", 16, 32, pointee="f32"), I32, I32, I64, I64] * 2
