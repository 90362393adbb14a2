// The planted fault of tools/check_spills: more values than the registers that it is compiled for.
extern "C" __global__ void spilling_kernel(float* values) {
  float kept[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) kept[i] = values[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 32; ++i) values[threadIdx.x * 32 + i] = kept[i] * kept[(i * 7 + 3) % 32] + kept[31 - i];
}
