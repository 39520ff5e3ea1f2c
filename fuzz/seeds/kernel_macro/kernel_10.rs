fn gelu(x: Tile<f32>, scale: f32) -> f32 {
    let half = 0.5 * x;
    half * (1.0 + erf(x * scale))
}
