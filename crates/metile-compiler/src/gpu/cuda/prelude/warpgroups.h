namespace metile {

// A matrix in shared memory for a warpgroup's product: its address and two distances, in 16 bytes, of a
// layout in which the 16-byte units of 128 bytes are swapped by the row.
METILE u64 operand(u32 address, u32 leading, u32 stride) {
    return u64(address >> 4 & 0x3fff) | u64(leading >> 4 & 0x3fff) << 16 | u64(stride >> 4 & 0x3fff) << 32 | 1ull << 62;
}
METILE u32 shared_at(const void* at) {
    return u32(__cvta_generic_to_shared(at));
}
// The compiler moves no access of the sums over this.
template <int N> METILE void hold(f32* sums) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(sums[i]) : : "memory");
}
template <int N> METILE void wgmma_begin(f32* sums) {
    hold<N>(sums);
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}
METILE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
template <int N> METILE void wgmma_wait(f32* sums) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
    hold<N>(sums);
}

}
