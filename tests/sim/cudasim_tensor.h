// SPDX-License-Identifier: MIT
//
// Tensor cores and asynchronous copies, as gpu/mma.cuh asks for them. A tile's product and a load
// of tiles are operations of a whole warp: all 32 lanes have to meet in the same one.
//
//   RG_SIM_CP=early|late   when an asynchronous copy happens: at once, or (unless this says
//                          otherwise) not before its wait, and until then its target is NaN
#ifndef RIDGE_SIM_CUDASIM_TENSOR_H
#define RIDGE_SIM_CUDASIM_TENSOR_H

// What a lane brings to an operation on tiles, and what it takes away.
struct rgsim_tile {
  const void *row; // loads: what this lane names
  unsigned *r;
  const unsigned *a, *b; // products
  float *c;
  int *whole; // products of bytes
};

extern "C" {
// True: copy at once. Otherwise the copy is kept until a wait asks for it.
RGSIM_LOCAL int rgsim_copy_begin(void *to, const void *from, int bytes, const char *file, int line);
RGSIM_LOCAL void rgsim_copy_commit(void);
// The next copy that is due where the last `keep` groups may be under way; 0: there is none.
RGSIM_LOCAL int rgsim_copy_due(int keep, void **to, const void **from, int *bytes);
}

// The copies themselves are here, where the sanitizers see them.
inline void rgsim_move(void *to, const void *from, int bytes, unsigned otherwise)
{
  for (int i = 0; i < bytes / 4; i++)
    static_cast<unsigned *>(to)[i] = from ? static_cast<const unsigned *>(from)[i] : otherwise;
}

// Of 4, 8 or 16 bytes, at multiples of that.
inline void rgsim_copy(void *to, const void *from, int bytes, bool there, RGSIM_PLACE)
{
  const void *source = there ? from : nullptr;
  if (rgsim_copy_begin(to, source, bytes, file, line)) {
    rgsim_move(to, source, bytes, 0);
  } else {
    rgsim_move(to, nullptr, bytes, ~0u);
  }
}

inline void rgsim_copy_wait(int keep)
{
  void *to;
  const void *from;
  int bytes;
  while (rgsim_copy_due(keep, &to, &from, &bytes))
    rgsim_move(to, from, bytes, 0);
}

inline uint64_t rgsim_tile_bits(const rgsim_tile *t)
{
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(t));
}

inline void rgsim_tiles(unsigned r[4], const void *row, bool transposed, RGSIM_PLACE)
{
  const volatile unsigned *words = static_cast<const volatile unsigned *>(row);
  for (int i = 0; i < 4; i++)
    (void)words[i]; // for the sanitizers: each lane reads the row that it names
  rgsim_tile t = { row, r, nullptr, nullptr, nullptr, nullptr };
  rgsim_warp(0xffffffffu, transposed ? RGSIM_TILES_TRANSPOSED : RGSIM_TILES, 0, rgsim_tile_bits(&t),
             "ldmatrix", file, line);
}

inline void rgsim_mma(float c[4], const unsigned a[4], const unsigned b[2], bool brain, RGSIM_PLACE)
{
  rgsim_tile t = { nullptr, nullptr, a, b, c, nullptr };
  rgsim_warp(0xffffffffu, brain ? RGSIM_MMA_BF16 : RGSIM_MMA_F16, 0, rgsim_tile_bits(&t), "mma",
             file, line);
}

// The low bits of a factor are not looked at: one that was not rounded is cut.
inline unsigned rgsim_tf32(float x)
{
  unsigned bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x) return 0x7fffffffu;                       // the one nan of cvt
  if ((bits & 0x7f800000u) == 0x7f800000u) return bits; // an infinity
  return (bits + 0x1000u) & ~0x1fffu;
}

inline void rgsim_mma_tf32(float c[4], const unsigned a[4], const unsigned b[2], RGSIM_PLACE)
{
  rgsim_tile t = { nullptr, nullptr, a, b, c, nullptr };
  rgsim_warp(0xffffffffu, RGSIM_MMA_TF32, 0, rgsim_tile_bits(&t), "mma of tf32", file, line);
}

inline void rgsim_mma_bytes(int c[4], const unsigned a[4], const unsigned b[2], RGSIM_PLACE)
{
  rgsim_tile t = { nullptr, nullptr, a, b, nullptr, c };
  rgsim_warp(0xffffffffu, RGSIM_MMA_BYTES, 0, rgsim_tile_bits(&t), "mma of bytes", file, line);
}

#endif
