namespace metile {

// Addresses of the launch are those of the device's memory.
template <class T> METILE T* global(u64 address) {
    return (T*)__cvta_global_to_generic(address);
}

// N elements from words, and back.
template <class T, int N> METILE void unpack(const u32* words, T* to) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        if constexpr (sizeof(T) == 8) {
            to[k] = T(u64(words[2 * k + 1]) << 32 | words[2 * k]);
        } else {
            constexpr int each = 4 / sizeof(T);
            to[k] = from_bits<T>(words[k / each] >> (k % each * (width<T> & 31)));
        }
    }
}
template <class T, int N> METILE void pack(const T* from, u32* words) {
#pragma unroll
    for (int w = 0; w < (N * int(sizeof(T)) + 3) / 4; ++w) words[w] = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        if constexpr (sizeof(T) == 8) {
            words[2 * k] = u32(u64(from[k]));
            words[2 * k + 1] = u32(u64(from[k]) >> 32);
        } else {
            constexpr int each = 4 / sizeof(T);
            words[k / each] |= to_bits<T>(from[k]) << (k % each * (width<T> & 31));
        }
    }
}

template <bool CONSTANT, class W> METILE W fetch(const void* from) {
    if constexpr (CONSTANT) {
        return __ldg((const W*)from);
    } else {
        return *(const W*)from;
    }
}

// N elements that lie side by side, aligned to their size.
template <class T, int N, bool CONSTANT> METILE void load(const T* from, T* to) {
    constexpr int bytes = N * sizeof(T);
    u32 words[4];
    if constexpr (bytes == 16) {
        uint4 x = fetch<CONSTANT, uint4>(from);
        words[0] = x.x, words[1] = x.y, words[2] = x.z, words[3] = x.w;
    } else if constexpr (bytes == 8) {
        uint2 x = fetch<CONSTANT, uint2>(from);
        words[0] = x.x, words[1] = x.y;
    } else if constexpr (bytes == 4) {
        words[0] = fetch<CONSTANT, u32>(from);
    } else if constexpr (bytes == 2) {
        words[0] = fetch<CONSTANT, u16>(from);
    } else {
        words[0] = fetch<CONSTANT, u8>(from);
    }
    unpack<T, N>(words, to);
}

// The same where `in`, without a branch; what `to` holds stays elsewhere.
template <class T, int N, bool CONSTANT> METILE void load_if(bool in, const T* from, T* to) {
    constexpr int bytes = N * sizeof(T);
    u32 w[4];
    pack<T, N>(to, w);
    u64 at = __cvta_generic_to_global(from);
    if constexpr (bytes == 16 && CONSTANT) {
        asm("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4]; }"
            : "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3]) : "l"(at), "r"(u32(in)));
    } else if constexpr (bytes == 16) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.v4.b32 {%0, %1, %2, %3}, [%4]; }"
            : "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3]) : "l"(at), "r"(u32(in)) : "memory");
    } else if constexpr (bytes == 8 && CONSTANT) {
        asm("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p ld.global.nc.v2.b32 {%0, %1}, [%2]; }"
            : "+r"(w[0]), "+r"(w[1]) : "l"(at), "r"(u32(in)));
    } else if constexpr (bytes == 8) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p ld.global.v2.b32 {%0, %1}, [%2]; }"
            : "+r"(w[0]), "+r"(w[1]) : "l"(at), "r"(u32(in)) : "memory");
    } else if constexpr (bytes == 4 && CONSTANT) {
        asm("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.nc.b32 %0, [%1]; }"
            : "+r"(w[0]) : "l"(at), "r"(u32(in)));
    } else if constexpr (bytes == 4) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.b32 %0, [%1]; }"
            : "+r"(w[0]) : "l"(at), "r"(u32(in)) : "memory");
    } else if constexpr (bytes == 2 && CONSTANT) {
        asm("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.nc.u16 %0, [%1]; }"
            : "+r"(w[0]) : "l"(at), "r"(u32(in)));
    } else if constexpr (bytes == 2) {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.u16 %0, [%1]; }"
            : "+r"(w[0]) : "l"(at), "r"(u32(in)) : "memory");
    } else if constexpr (CONSTANT) {
        asm("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.nc.u8 %0, [%1]; }"
            : "+r"(w[0]) : "l"(at), "r"(u32(in)));
    } else {
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.u8 %0, [%1]; }"
            : "+r"(w[0]) : "l"(at), "r"(u32(in)) : "memory");
    }
    unpack<T, N>(w, to);
}

template <class T, int N> METILE void store(T* to, const T* from) {
    constexpr int bytes = N * sizeof(T);
    u32 w[4];
    pack<T, N>(from, w);
    if constexpr (bytes == 16) {
        *(uint4*)to = make_uint4(w[0], w[1], w[2], w[3]);
    } else if constexpr (bytes == 8) {
        *(uint2*)to = make_uint2(w[0], w[1]);
    } else if constexpr (bytes == 4) {
        *(u32*)to = w[0];
    } else if constexpr (bytes == 2) {
        *(u16*)to = u16(w[0]);
    } else {
        *(u8*)to = u8(w[0]);
    }
}

// One value N times.
template <class T, int N> METILE void fill(T* to, T value) {
#pragma unroll
    for (int k = 0; k < N; ++k) to[k] = value;
}
template <class T, int N> METILE void copy(T* to, const T* from) {
#pragma unroll
    for (int k = 0; k < N; ++k) to[k] = from[k];
}
template <class T, int N> METILE void store_all(T* to, T value) {
    T all[N];
    fill<T, N>(all, value);
    store<T, N>(to, all);
}

// The language has no order between the atomic operations of different threads.
template <class T> METILE T atomic_add(T* at, T value) {
    if constexpr (sizeof(T) == 8) {
        return T(atomicAdd((u64*)at, u64(value)));
    } else {
        return atomicAdd(at, value);
    }
}
template <class T> METILE T atomic_max(T* at, T value) {
    return atomicMax(at, value);
}
template <class T> METILE T atomic_min(T* at, T value) {
    return atomicMin(at, value);
}
template <class T> METILE T atomic_exchange(T* at, T value) {
    if constexpr (sizeof(T) == 8) {
        return T(atomicExch((u64*)at, u64(value)));
    } else {
        return from_bits<T>(atomicExch((u32*)at, to_bits(value)));
    }
}
template <class T> METILE T atomic_cas(T* at, T expected, T value) {
    if constexpr (sizeof(T) == 8) {
        return T(atomicCAS((u64*)at, u64(expected), u64(value)));
    } else {
        return from_bits<T>(atomicCAS((u32*)at, to_bits(expected), to_bits(value)));
    }
}

}
