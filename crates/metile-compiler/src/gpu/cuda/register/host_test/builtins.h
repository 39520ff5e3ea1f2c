// CUDA's built-in functions and what prelude/intrinsics.h defines, for a host compiler.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#define METILE inline

static float __uint_as_float(u32 bits) { float x; memcpy(&x, &bits, 4); return x; }
static u32 __float_as_uint(float x) { u32 bits; memcpy(&bits, &x, 4); return bits; }
static u32 __brev(u32 x) { u32 y = 0; for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i); return y; }
static u64 __brevll(u64 x) { u64 y = 0; for (int i = 0; i < 64; ++i) y |= (x >> i & 1ull) << (63 - i); return y; }

// Conversions clamp; what they make of NaN is not relied on.
static i32 __float2int_rz(float x) {
    return x != x ? 77 : x >= 2147483648.0f ? INT32_MAX : x <= -2147483648.0f ? INT32_MIN : (i32)x;
}
static u32 __float2uint_rz(float x) {
    return x != x ? 77 : x >= 4294967296.0f ? UINT32_MAX : x <= 0.0f ? 0 : (u32)x;
}
static i64 __float2ll_rz(float x) {
    return x != x ? INT64_MIN : x >= 9223372036854775808.0f ? INT64_MAX : x <= -9223372036854775808.0f ? INT64_MIN : (i64)x;
}
static u64 __float2ull_rz(float x) {
    return x != x ? 77 : x >= 18446744073709551616.0f ? UINT64_MAX : x <= 0.0f ? 0 : (u64)x;
}

namespace metile {
METILE f32 f32_from_f16(f16 x) {
    u32 sign = u32(x & 0x8000) << 16, exponent = x >> 10 & 31, fraction = x & 0x3ff;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
    f32 value = exponent ? ldexpf(float(fraction | 0x400), int(exponent) - 25) : ldexpf(float(fraction), -24);
    return sign ? -value : value;
}
// To the nearest of a format's values, ties to the even one.
METILE u16 nearest(f32 x, int fraction_bits, int least_exponent, int bias, u16 infinity) {
    u16 sign = std::signbit(x) ? 0x8000 : 0;
    if (x != x) return u16(sign | infinity | 1u << (fraction_bits - 1));
    f32 magnitude = fabsf(x);
    if (std::isinf(x)) return sign | infinity;
    if (magnitude == 0.0f) return sign;
    int exponent;
    frexp(double(magnitude), &exponent);
    exponent = exponent - 1 < least_exponent ? least_exponent : exponent - 1;
    double steps = nearbyint(ldexp(double(magnitude), fraction_bits - exponent));
    u32 bits = u32(exponent + bias - 1) << fraction_bits;
    bits += u32(steps);
    return bits >= infinity ? u16(sign | infinity) : u16(sign | bits);
}
METILE f16 f16_from_f32(f32 x) { return nearest(x, 10, -14, 15, 0x7c00); }
METILE bf16 bf16_from_f32(f32 x) { return nearest(x, 7, -126, 127, 0x7f80); }
METILE f32 max(f32 a, f32 b) {
    if (a != a || b != b) return NAN;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
}
METILE f32 min(f32 a, f32 b) {
    if (a != a || b != b) return NAN;
    return a < b || (a == b && std::signbit(a)) ? a : b;
}
}

static u64 bits_of(bool x) { return x; }
static u64 bits_of(i8 x) { return u8(x); }
static u64 bits_of(u8 x) { return x; }
static u64 bits_of(i16 x) { return u16(x); }
static u64 bits_of(u16 x) { return x; }
static u64 bits_of(i32 x) { return u32(x); }
static u64 bits_of(u32 x) { return x; }
static u64 bits_of(i64 x) { return u64(x); }
static u64 bits_of(u64 x) { return x; }
static u64 bits_of(f32 x) { return __float_as_uint(x); }
