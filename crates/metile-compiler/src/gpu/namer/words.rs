//! The words that target languages keep for themselves, and those that an emitter uses.

use super::Reserved;

/// Metal Shading Language: C++14, and what `metal_stdlib` brings into scope.
pub const MSL: Reserved = &[CPP, MSL_WORDS, MSL_TYPES, MSL_FUNCTIONS, &["metile"]];

/// CUDA C++, as NVRTC has it.
pub const CUDA: Reserved = &[CPP, CUDA_WORDS, CUDA_TYPES, CUDA_FUNCTIONS, &["metile"]];

/// Keywords of C++ up to C++20, its alternative operators, and macros that compilers define.
#[rustfmt::skip]
const CPP: &[&str] = &[
    "alignas", "alignof", "and", "and_eq", "asm", "assert", "auto", "bitand", "bitor", "bool",
    "break", "case", "catch", "char", "char16_t", "char32_t", "char8_t", "class", "co_await",
    "co_return", "co_yield", "compl", "concept", "const", "const_cast", "consteval", "constexpr",
    "constinit", "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast",
    "else", "enum", "errno", "explicit", "export", "extern", "false", "final", "float", "for",
    "friend", "goto", "if", "import", "INFINITY", "inline", "int", "linux", "long", "main",
    "module", "mutable", "namespace", "NAN", "new", "noexcept", "not", "not_eq", "NULL", "nullptr",
    "offsetof", "operator", "or", "or_eq", "override", "private", "protected", "public", "register",
    "reinterpret_cast", "requires", "restrict", "return", "short", "signed", "sizeof", "static",
    "static_assert", "static_cast", "std", "struct", "switch", "template", "this", "thread_local",
    "throw", "true", "try", "typedef", "typeid", "typename", "union", "unix", "unsigned", "using",
    "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
];

/// Qualifiers and namespaces.
#[rustfmt::skip]
const MSL_WORDS: &[&str] = &[
    "access", "as_type", "constant", "device", "fast", "fragment", "imageblock", "intersection",
    "kernel", "mem_flags", "memory_order", "memory_scope", "mesh", "metal", "object", "object_data",
    "precise", "quadgroup", "ray_data", "simd", "simdgroup", "stitchable", "thread", "thread_scope",
    "threadgroup", "threadgroup_imageblock", "vertex", "visible",
];

/// Types.
#[rustfmt::skip]
const MSL_TYPES: &[&str] = &[
    "array", "array_ref", "atomic", "atomic_bool", "atomic_float", "atomic_int", "atomic_uint",
    "atomic_ulong", "bfloat", "bfloat2", "bfloat3", "bfloat4", "bool2", "bool3", "bool4", "buffer",
    "char2", "char3", "char4", "float2", "float2x2", "float2x3", "float2x4", "float3", "float3x2",
    "float3x3", "float3x4", "float4", "float4x2", "float4x3", "float4x4", "half", "half2",
    "half2x2", "half2x3", "half2x4", "half3", "half3x2", "half3x3", "half3x4", "half4", "half4x2",
    "half4x3", "half4x4", "int16_t", "int2", "int3", "int32_t", "int4", "int64_t", "int8_t",
    "long2", "long3", "long4", "matrix", "packed_bfloat2", "packed_bfloat3", "packed_bfloat4",
    "packed_bool2", "packed_bool3", "packed_bool4", "packed_char2", "packed_char3", "packed_char4",
    "packed_float2", "packed_float3", "packed_float4", "packed_half2", "packed_half3",
    "packed_half4", "packed_int2", "packed_int3", "packed_int4", "packed_long2", "packed_long3",
    "packed_long4", "packed_short2", "packed_short3", "packed_short4", "packed_uchar2",
    "packed_uchar3", "packed_uchar4", "packed_uint2", "packed_uint3", "packed_uint4",
    "packed_ulong2", "packed_ulong3", "packed_ulong4", "packed_ushort2", "packed_ushort3",
    "packed_ushort4", "ptrdiff_t", "sampler", "short2", "short3", "short4", "simdgroup_bfloat8x8",
    "simdgroup_float8x8", "simdgroup_half8x8", "simdgroup_matrix", "size_t", "tensor", "texture1d",
    "texture2d", "texture3d", "uchar", "uchar2", "uchar3", "uchar4", "uint", "uint16_t", "uint2",
    "uint3", "uint32_t", "uint4", "uint64_t", "uint8_t", "ulong", "ulong2", "ulong3", "ulong4",
    "ushort", "ushort2", "ushort3", "ushort4", "vec",
];

/// Functions.
#[rustfmt::skip]
const MSL_FUNCTIONS: &[&str] = &[
    "abs", "absdiff", "acos", "acosh", "addsat", "all", "any", "asin", "asinh", "atan", "atan2",
    "atanh", "atomic_compare_exchange_weak_explicit", "atomic_exchange_explicit",
    "atomic_fetch_add_explicit", "atomic_fetch_and_explicit", "atomic_fetch_max_explicit",
    "atomic_fetch_min_explicit", "atomic_fetch_or_explicit", "atomic_fetch_sub_explicit",
    "atomic_fetch_xor_explicit", "atomic_load_explicit", "atomic_store_explicit",
    "atomic_thread_fence", "ceil", "clamp", "clz", "copysign", "cos", "cosh", "cospi", "cross",
    "ctz", "discard_fragment", "distance", "divide", "dot", "erf", "exp", "exp10", "exp2",
    "extract_bits", "fabs", "fdim", "floor", "fma", "fmax", "fmax3", "fmedian3", "fmin", "fmin3",
    "fmod", "fract", "frexp", "hadd", "ilogb", "insert_bits", "isfinite", "isinf", "isnan",
    "isnormal", "isordered", "isunordered", "ldexp", "length", "log", "log10", "log2", "mad24",
    "madhi", "madsat", "make_filled_simdgroup_matrix", "max", "max3", "median3",
    "memory_order_relaxed", "memory_order_seq_cst", "min", "min3", "mix", "modf", "mul24", "mulhi",
    "nextafter", "normalize", "popcount", "pow", "powr", "quad_sum", "reflect", "refract",
    "reverse_bits", "rhadd", "rint", "rotate", "round", "rsqrt", "saturate", "select", "sign",
    "signbit", "simd_all", "simd_and", "simd_any", "simd_ballot", "simd_broadcast",
    "simd_broadcast_first", "simd_is_first", "simd_max", "simd_min", "simd_or", "simd_product",
    "simd_shuffle", "simd_shuffle_down", "simd_shuffle_up", "simd_shuffle_xor", "simd_sum",
    "simd_xor", "simdgroup_barrier", "simdgroup_load", "simdgroup_multiply",
    "simdgroup_multiply_accumulate", "simdgroup_store", "sin", "sincos", "sinh", "sinpi",
    "smoothstep", "sqrt", "step", "subsat", "tan", "tanh", "tanpi", "threadgroup_barrier",
    "transpose", "trunc",
];

/// Variables that every kernel has.
#[rustfmt::skip]
const CUDA_WORDS: &[&str] = &[
    "blockDim", "blockIdx", "far", "gridDim", "near", "threadIdx", "typeof", "warpSize",
];

/// Types and namespaces.
#[rustfmt::skip]
const CUDA_TYPES: &[&str] = &[
    "char1", "char2", "char3", "char4", "clock_t", "cooperative_groups", "cuda", "CUtensorMap",
    "dim3", "double1", "double2", "double3", "double4", "float1", "float2", "float3", "float4",
    "half", "half2", "int1", "int16_t", "int2", "int3", "int32_t", "int4", "int64_t", "int8_t",
    "long1", "long2", "long3", "long4", "longlong1", "longlong2", "longlong3", "longlong4",
    "nv_bfloat16", "nv_bfloat162", "nvcuda", "ptrdiff_t", "short1", "short2", "short3", "short4",
    "size_t", "uchar", "uchar1", "uchar2", "uchar3", "uchar4", "uint", "uint1", "uint16_t", "uint2",
    "uint3", "uint32_t", "uint4", "uint64_t", "uint8_t", "ulong", "ulong1", "ulong2", "ulong3",
    "ulong4", "ulonglong1", "ulonglong2", "ulonglong3", "ulonglong4", "ushort", "ushort1",
    "ushort2", "ushort3", "ushort4", "wmma",
];

/// Functions.
#[rustfmt::skip]
const CUDA_FUNCTIONS: &[&str] = &[
    "abs", "acos", "acosf", "acosh", "acoshf", "asin", "asinf", "asinh", "asinhf", "atan", "atan2",
    "atan2f", "atanf", "atanh", "atanhf", "atomicAdd", "atomicAnd", "atomicCAS", "atomicDec",
    "atomicExch", "atomicInc", "atomicMax", "atomicMin", "atomicOr", "atomicSub", "atomicXor",
    "brev", "ceil", "ceilf", "clock", "clock64", "copysign", "copysignf", "cos", "cosf", "cosh",
    "coshf", "cospi", "cospif", "erf", "erfc", "erfcf", "erff", "exp", "exp10", "exp10f", "exp2",
    "exp2f", "expf", "expm1", "expm1f", "fabs", "fabsf", "fdim", "fdimf", "floor", "floorf", "fma",
    "fmaf", "fmax", "fmaxf", "fmin", "fminf", "fmod", "fmodf", "free", "frexp", "frexpf", "ilogb",
    "isfinite", "isinf", "isnan", "j0", "j1", "jn", "labs", "ldexp", "ldexpf", "lgamma", "llabs",
    "llmax", "llmin", "log", "log10", "log10f", "log1p", "log2", "log2f", "logf", "malloc", "max",
    "memcpy", "memset", "min", "modf", "nan", "nanf", "nearbyint", "nearbyintf", "norm", "pow",
    "powf", "printf", "remainder", "rint", "rintf", "round", "roundf", "rsqrt", "rsqrtf", "signbit",
    "sin", "sincos", "sincosf", "sinf", "sinh", "sinhf", "sqrt", "sqrtf", "tan", "tanf", "tanh",
    "tanhf", "tgamma", "trap", "trunc", "truncf", "ullmax", "ullmin", "umax", "umin", "y0", "y1",
    "yn",
];
