namespace metile {

template <class T> METILE T shuffle_xor(T value, int mask) {
    if constexpr (sizeof(T) == 8) {
        return T(__shfl_xor_sync(~0u, u64(value), mask));
    } else {
        return from_bits<T>(__shfl_xor_sync(~0u, to_bits(value), mask));
    }
}
template <class T> METILE T shuffle(T value, int lane) {
    if constexpr (sizeof(T) == 8) {
        return T(__shfl_sync(~0u, u64(value), lane));
    } else {
        return from_bits<T>(__shfl_sync(~0u, to_bits(value), lane));
    }
}

METILE u32 load_acquire(const u32* at) {
    u32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
        : "=r"(value) : "l"(__cvta_generic_to_global(at)) : "memory");
    return value;
}
METILE void add_release(u32* at, u32 n) {
    __threadfence();
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;"
        : : "l"(__cvta_generic_to_global(at)), "r"(n) : "memory");
}
METILE void wait(const u32* at, u32 n) {
    while (load_acquire(at) < n) {}
}

// What this thread wrote to shared memory is visible to units that read it there on their own.
METILE void async_fence() {
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

// counter[0]: blocks that are here; counter[1]: barriers passed so far.
METILE void grid_barrier(u32* counter) {
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 passed = load_acquire(counter + 1);
        __threadfence();
        if (atomicAdd(counter, 1u) == gridDim.x - 1) {
            atomicExch(counter, 0u);
            add_release(counter + 1, 1u);
        } else {
            while (load_acquire(counter + 1) == passed) {}
        }
        __threadfence();
    }
    __syncthreads();
}

// The first failure of a launch is kept.
METILE void report(u64* to, u64 message, i32 element) {
    if (atomicCAS(to, 0ull, message) == 0) {
        to[1] = blockIdx.x;
        to[2] = u64(i64(element));
    }
}

}
