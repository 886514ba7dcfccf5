#pragma once
// Functions that both host code and CUDA kernels call.

#ifdef __CUDACC__
#define QUANTEM_HOST_DEVICE __host__ __device__
#else
#define QUANTEM_HOST_DEVICE
#endif
