// launch_qualifiers.h -- lets one inline function serve host code, nvcc and the simulator.
#pragma once
#ifdef __CUDACC__
    #define LC_HOST_DEVICE __host__ __device__
#else
    #define LC_HOST_DEVICE
#endif
