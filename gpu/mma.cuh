/* SPDX-License-Identifier: MIT */
/*
** What tensor cores are fed with, on compute capability 8.0 and later: products of small tiles by
** a warp (mma.sync), their factors out of shared memory (ldmatrix), and copies into shared memory
** that go on beside the arithmetic (cp.async).  Under the simulator each of them has a second body
** in tests/sim/cudasim_tensor.h with the same layout of registers.
**
** PTX ISA: mma.m16n8k16 with sums in f32, mma.m16n8k8 of TF32 with sums in f32, mma.m16n8k32 of
** bytes with sums in s32, ldmatrix.m8n8.x4, cvt.rna.tf32, cp.async.
*/
#ifndef RIDGE_GPU_MMA_CUH
#define RIDGE_GPU_MMA_CUH

#include <stdint.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/launch.cuh"

/* -- Copies -------------------------------------------------------------------------------- */

/* 16 bytes of global memory into shared memory, or 16 bytes of zeros; both addresses are multiples
** of 16, and `from` points into an allocation in either case.  They are there after a wait, for
** other threads after the barrier that follows it. */
static __device__ __forceinline__ void rg_copy16(void *to, const void *from, bool there)
{
#ifdef RG_SIM
  rgsim_copy(to, from, 16, there);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(
                   (uint32_t)__cvta_generic_to_shared(to)),
               "l"(from), "r"(there ? 16 : 0)
               : "memory");
#endif
}

/* The same with 4 bytes, at multiples of 4. */
static __device__ __forceinline__ void rg_copy4(void *to, const void *from, bool there)
{
#ifdef RG_SIM
  rgsim_copy(to, from, 4, there);
#else
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(
                   (uint32_t)__cvta_generic_to_shared(to)),
               "l"(from), "r"(there ? 4 : 0)
               : "memory");
#endif
}

/* What was copied since the last one is a group; there may be nothing in it. */
static __device__ __forceinline__ void rg_copy_commit(void)
{
#ifdef RG_SIM
  rgsim_copy_commit();
#else
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

/* Until all of this thread's groups have landed but the last N. */
template <int N> static __device__ __forceinline__ void rg_copy_wait(void)
{
#ifdef RG_SIM
  rgsim_copy_wait(N);
#else
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
#endif
}

/* -- Factors ------------------------------------------------------------------------------- */

/* Four matrices of 8 x 8 elements of two bytes.  Lane l names row l % 8 of matrix l / 8, at a
** multiple of 16 bytes; register i of lane l gets elements 2 (l % 4) and the next of row l / 4 of
** matrix i.  With TRANSPOSED they are elements of a column. */
template <bool TRANSPOSED>
static __device__ __forceinline__ void rg_tiles(uint32_t r[4], const void *row)
{
#ifdef RG_SIM
  rgsim_tiles(r, row, TRANSPOSED);
#else
  uint32_t at = (uint32_t)__cvta_generic_to_shared(row);

  if (TRANSPOSED) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  }
#endif
}

#define RG_MMA_LANE ((int)threadIdx.x % 32)

/* A left factor of 16 x 16 for rg_mma out of rows of `pitch` elements; with TRANSPOSED `from` holds
** its columns as rows. */
template <bool TRANSPOSED, class T>
static __device__ __forceinline__ void rg_left(uint32_t a[4], const T *from, int pitch)
{
  int lane = RG_MMA_LANE;
  int row = TRANSPOSED ? lane % 8 + lane / 16 * 8 : lane % 16;
  int col = TRANSPOSED ? lane / 8 % 2 * 8 : lane / 16 * 8;

  rg_tiles<TRANSPOSED>(a, from + row * pitch + col);
}

/* Two adjacent right factors of 16 x 8, b[0], b[1] and b[2], b[3]; with TRANSPOSED `from`
** holds their columns as rows. */
template <bool TRANSPOSED, class T>
static __device__ __forceinline__ void rg_right(uint32_t b[4], const T *from, int pitch)
{
  int lane = RG_MMA_LANE;
  int row = TRANSPOSED ? lane % 8 + lane / 16 * 8 : lane % 16;
  int col = TRANSPOSED ? lane / 8 % 2 * 8 : lane / 16 * 8;

  rg_tiles<!TRANSPOSED>(b, from + row * pitch + col);
}

/* -- Products ------------------------------------------------------------------------------ */

/* c[16 x 8] += a[16 x 16] b[16 x 8] with sums in float.  Lane l has of a, with g = l / 4 and
** q = 2 (l % 4): a[0] row g, columns q and q + 1; a[1] row g + 8; a[2], a[3] the same 8 columns
** further; of b: b[0] rows q and q + 1 of column g, b[1] 8 rows further; of c: c[0], c[1] row g,
** columns q and q + 1, c[2], c[3] row g + 8. */
static __device__ __forceinline__ void rg_mma(__nv_bfloat16, float c[4], const uint32_t a[4],
                                              const uint32_t b[2])
{
#ifdef RG_SIM
  rgsim_mma(c, a, b, true);
#else
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

static __device__ __forceinline__ void rg_mma(__half, float c[4], const uint32_t a[4],
                                              const uint32_t b[2])
{
#ifdef RG_SIM
  rgsim_mma(c, a, b, false);
#else
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* A float with 10 bits of fraction, to the nearest, from the middle away from 0: TF32. */
static __device__ __forceinline__ uint32_t rg_tf32(float x)
{
#ifdef RG_SIM
  return rgsim_tf32(x);
#else
  uint32_t bits;

  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(bits) : "f"(x));
  return bits;
#endif
}

/* c[16 x 8] += a[16 x 8] b[8 x 8] of TF32.  Lane l has of a, with g = l / 4 and q = l % 4: a[0] row
** g, column q; a[1] row g + 8; a[2], a[3] the same 4 columns further; of b: b[0] row q of column g,
** b[1] 4 rows further; of c as above. */
static __device__ __forceinline__ void rg_mma(float, float c[4], const uint32_t a[4],
                                              const uint32_t b[2])
{
#ifdef RG_SIM
  rgsim_mma_tf32(c, a, b);
#else
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Two bytes that are neighbours along the inner axis, where a half type has one element. */
struct rg_bytes {
  int8_t v[2];
};

/* c[16 x 8] += a[16 x 32] b[32 x 8] of bytes with whole sums: registers hold the bytes that those
** of half types have in the same places, so rg_left and rg_right (transposed) bring them. */
static __device__ __forceinline__ void rg_mma(rg_bytes, int32_t c[4], const uint32_t a[4],
                                              const uint32_t b[2])
{
#ifdef RG_SIM
  rgsim_mma_bytes(c, a, b);
#else
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Two numbers as the halves of a register, the first one low. */
static __device__ __forceinline__ uint32_t rg_pair(__nv_bfloat16, float low, float high)
{
  union {
    __nv_bfloat162 pair;
    uint32_t bits;
  } both = { __floats2bfloat162_rn(low, high) };

  return both.bits;
}

static __device__ __forceinline__ uint32_t rg_pair(__half, float low, float high)
{
  union {
    __half2 pair;
    uint32_t bits;
  } both = { __floats2half2_rn(low, high) };

  return both.bits;
}

#endif
