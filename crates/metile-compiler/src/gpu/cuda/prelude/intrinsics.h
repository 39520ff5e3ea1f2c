#define METILE __device__ __forceinline__

namespace metile {

METILE f32 f32_from_f16(f16 x) {
    f32 y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}
METILE f16 f16_from_f32(f32 x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
METILE bf16 bf16_from_f32(f32 x) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

// NaN if either is; +0 above -0.
METILE f32 max(f32 a, f32 b) {
    f32 c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}
METILE f32 min(f32 a, f32 b) {
    f32 c;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

}
