namespace metile {

// Integers wrap: they are computed without sign, in 32 or 64 bits, and cut to their width.
template <class T> struct Wrap { using type = u32; };
template <> struct Wrap<i64> { using type = u64; };
template <> struct Wrap<u64> { using type = u64; };
template <class T> constexpr bool has_sign = T(-1) < T(0);
template <class T> constexpr u32 width = 8 * sizeof(T);

template <class T> METILE T add(T a, T b) {
    using U = typename Wrap<T>::type;
    return T(U(a) + U(b));
}
template <class T> METILE T sub(T a, T b) {
    using U = typename Wrap<T>::type;
    return T(U(a) - U(b));
}
template <class T> METILE T mul(T a, T b) {
    using U = typename Wrap<T>::type;
    return T(U(a) * U(b));
}
template <class T> METILE T neg(T a) {
    return sub(T(0), a);
}
template <class T> METILE T abs(T a) {
    if constexpr (has_sign<T>) {
        return a < T(0) ? neg(a) : a;
    } else {
        return a;
    }
}
// x / 0 = 0, MIN / -1 = MIN.
template <class T> METILE T div(T a, T b) {
    if (b == T(0)) return T(0);
    if (has_sign<T> && b == T(-1)) return neg(a);
    return T(a / b);
}
// x % 0 = x.
template <class T> METILE T rem(T a, T b) {
    if (b == T(0)) return a;
    if (has_sign<T> && b == T(-1)) return T(0);
    return T(a % b);
}
template <class T> METILE T max(T a, T b) {
    return a < b ? b : a;
}
template <class T> METILE T min(T a, T b) {
    return b < a ? b : a;
}
// Amounts outside of the width, negative ones too, shift everything out.
template <class T> METILE T shl(T a, T b) {
    using U = typename Wrap<T>::type;
    return U(b) < width<T> ? T(U(a) << U(b)) : T(0);
}
template <class T> METILE T shr(T a, T b) {
    using U = typename Wrap<T>::type;
    if (U(b) < width<T>) return T(a >> U(b));
    if constexpr (has_sign<T>) {
        return a < T(0) ? T(-1) : T(0);
    } else {
        return T(0);
    }
}
template <class T> METILE T reverse_bits(T a) {
    if constexpr (sizeof(T) == 8) {
        return T(__brevll(u64(a)));
    } else {
        return T(__brev(u32(a)) >> (32 - width<T>));
    }
}

METILE f32 rsqrt(f32 x) {
    return 1.0f / sqrtf(x);
}
// e^-|x| does not overflow, so that the tail below -88 keeps its subnormal values.
METILE f32 sigmoid(f32 x) {
    f32 e = expf(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
METILE f32 f32_from_bf16(bf16 x) {
    return __uint_as_float(u32(x) << 16);
}

// Towards zero, to the nearest value that there is; NaN to 0.
template <class T> METILE T saturate(f32 x);
template <> METILE i32 saturate<i32>(f32 x) {
    return x != x ? 0 : __float2int_rz(x);
}
template <> METILE u32 saturate<u32>(f32 x) {
    return x != x ? 0 : __float2uint_rz(x);
}
template <> METILE i64 saturate<i64>(f32 x) {
    return x != x ? 0 : __float2ll_rz(x);
}
template <> METILE u64 saturate<u64>(f32 x) {
    return x != x ? 0 : __float2ull_rz(x);
}
template <> METILE i8 saturate<i8>(f32 x) {
    return i8(max(-128, min(127, saturate<i32>(x))));
}
template <> METILE i16 saturate<i16>(f32 x) {
    return i16(max(-32768, min(32767, saturate<i32>(x))));
}
template <> METILE u8 saturate<u8>(f32 x) {
    return u8(min(255u, saturate<u32>(x)));
}
template <> METILE u16 saturate<u16>(f32 x) {
    return u16(min(65535u, saturate<u32>(x)));
}

// Registers of 32 bits and what they hold.
template <class T> METILE T from_bits(u32 bits) {
    return T(bits);
}
template <> METILE bool from_bits<bool>(u32 bits) {
    return (bits & 255) != 0;
}
template <> METILE f32 from_bits<f32>(u32 bits) {
    return __uint_as_float(bits);
}
template <class T> METILE u32 to_bits(T value) {
    return u32(value) & (sizeof(T) == 4 ? ~0u : (1u << (width<T> & 31)) - 1);
}
template <> METILE u32 to_bits<f32>(f32 value) {
    return __float_as_uint(value);
}

}
