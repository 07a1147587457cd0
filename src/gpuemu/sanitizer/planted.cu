// One bug for each tool of compute-sanitizer, and the same without it. One block of n = 64 threads; x holds n
// floats that were written, unwritten n that never were, y room for n.
//
// planted.ptx is made of this file, so that no compiler is needed where it runs:
//
//   nvcc --ptx --gpu-architecture=compute_75 planted.cu -o planted.ptx
//
// then without comments and with the oldest .version that suffices, so that older drivers take it
// (tests/unit/sanitizer/test_planted.py does all that and compares).

#define ARGUMENTS const float* x, const float* unwritten, float* y, int n

extern "C" __global__ void right_memcheck(ARGUMENTS) { y[threadIdx.x] = x[threadIdx.x]; }

extern "C" __global__ void planted_memcheck(ARGUMENTS) { y[threadIdx.x + 1] = x[threadIdx.x]; }

extern "C" __global__ void right_racecheck(ARGUMENTS) {
    __shared__ float row[64];
    row[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = row[n - 1 - threadIdx.x];
}

extern "C" __global__ void planted_racecheck(ARGUMENTS) {
    __shared__ float row[64];
    row[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = row[n - 1 - threadIdx.x];
}

extern "C" __global__ void right_initcheck(ARGUMENTS) { y[threadIdx.x] = x[threadIdx.x] + 1.0f; }

extern "C" __global__ void planted_initcheck(ARGUMENTS) { y[threadIdx.x] = unwritten[threadIdx.x] + 1.0f; }

extern "C" __global__ void right_synccheck(ARGUMENTS) {
    __syncthreads();
    y[threadIdx.x] = x[threadIdx.x];
}

extern "C" __global__ void planted_synccheck(ARGUMENTS) {
    if (threadIdx.x < 40) __syncthreads();
    y[threadIdx.x] = x[threadIdx.x];
}
