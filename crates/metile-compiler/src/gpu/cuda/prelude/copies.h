namespace metile {

// BYTES from the device's memory to shared memory, beside the threads; zeros where not `in`.
template <int BYTES> METILE void copy_async(void* to, const void* from, bool in) {
    u32 at = u32(__cvta_generic_to_shared(to));
    u64 source = __cvta_generic_to_global(from);
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
            : : "r"(at), "l"(source), "r"(in ? BYTES : 0) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
            : : "r"(at), "l"(source), "n"(BYTES), "r"(in ? BYTES : 0) : "memory");
    }
}
METILE void commit_copies() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}
template <int PENDING> METILE void wait_copies() {
    asm volatile("cp.async.wait_group %0;" : : "n"(PENDING) : "memory");
}

}
