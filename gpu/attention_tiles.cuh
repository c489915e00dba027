/* SPDX-License-Identifier: MIT */
/*
** Tiles of attention without tensor cores, for any types, strides and sizes of heads: what a block
** of 128 threads brings, sees and multiplies of one head.
**
** Products are made of register tiles: a thread has four rows (in double two) by eight columns, and
** reads 12 times 16 bytes of shared memory for 128 products.  What is multiplied comes in pieces
** through two rooms in turn, one filled while the other is read.
*/
#ifndef RIDGE_GPU_ATTENTION_TILES_CUH
#define RIDGE_GPU_ATTENTION_TILES_CUH

#include "gpu/attention.cuh"
#include "gpu/attention_drop.cuh"
#include "gpu/mma.cuh"

enum {
  THREADS = 128,
  ACROSS = 8, /* columns of a tile that a thread has, and lanes that share a row */
  COLS = 64,  /* of a tile */
  DEPTH = 32, /* of a piece */
  HEADS = 8,  /* addresses of four heads, in the room of so many sums at most */
  PARTS = 2   /* of COLS columns each, that a block keeps sums of: wider heads are done by several
               ** blocks, each with its scores */
};

/* Of the type sums are in: what 16 bytes hold, sizes of tiles, and pitches such that eight lanes,
** each with 16 bytes of the next row, meet all banks once. */
template <class L> struct tile {
  static constexpr int VEC = 16 / (int)sizeof(L);
  static constexpr int OWN = VEC; /* rows of a thread, four apart */
  static constexpr int ROWS = THREADS / ACROSS * OWN;
  static constexpr int PITCH = DEPTH + VEC;      /* of rows that are multiplied with rows */
  static constexpr int VALUE_PITCH = COLS + VEC; /* of rows that are added up */
  static constexpr int WEIGHT_PITCH = COLS + ACROSS;
  static constexpr int PIECE = COLS * PITCH; /* the larger one: COLS PITCH, DEPTH VALUE_PITCH */
  static constexpr int OWN_PIECE = ROWS * PITCH;
  static constexpr int WEIGHTS = ROWS * WEIGHT_PITCH;
};

template <class L> struct alignas(16) vec {
  L v[tile<L>::VEC];
};

template <class L> __device__ inline vec<L> vec_at(const L *from)
{
  return *(const vec<L> *)from;
}

/* A tensor as [head][row][column]; what is the same for all heads is read from the kernel's own
** arguments, in no register. */
struct side {
  rg_strided x;
  int64_t row, col; /* steps */
  int rows, cols;
  bool wide; /* 16 bytes at a time */
};

struct tiled {
  attention w;
  side q, k, v, y, dy, dq, dk, dv;
  bool stays; /* of a block's own rows: all in shared memory, where they are met again and again */
};

/* One head of a tensor. */
template <class T> struct matrix {
  T *data;
  const side &x;
};

template <class T> __device__ inline matrix<T> head_of(const side &x, int64_t head)
{
  int64_t at = 0;

  for (int32_t d = x.x.ndim - 3; d >= 0; d--) {
    at += head % x.x.shape[d] * x.x.stride[d];
    head /= x.x.shape[d];
  }
  return matrix<T>{ (T *)x.x.data + at, x };
}

/* The same with its address in shared memory, read again for each piece: what does not change would
** fill registers otherwise. */
template <class T> struct placed {
  const T *const *data;
  const side &x;
};

template <class T> __device__ inline placed<T> place(const T **at, const side &x, int64_t head)
{
  if (threadIdx.x == 0) {
    *at = head_of<const T>(x, head).data;
  }
  return placed<T>{ at, x };
}

/* -- A thread's place in a tile ---------------------------------------------------------------- */

/* Lanes 2 i and 2 i + 1 share a row, i and i + 2 (i % 4 < 2) a column: loads of 16 bytes go out for
** half a warp at once where such neighbours read the same. */
#define LANE   ((int)threadIdx.x % 32)
#define COLUMN ((LANE & 1) | (LANE >> 1 & 6))      /* the first; the others are ACROSS apart */
#define FIRST  ((LANE >> 1 & 1) | (LANE >> 3 & 2)) /* row of its warp; the others are 4 apart */
#define WARP   ((int)threadIdx.x / 32 * 4 * tile<L>::OWN) /* the first row of its warp */

template <class L> __device__ inline L row_sum(L x)
{
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  x += __shfl_xor_sync(0xffffffffu, x, 4);
  return x + __shfl_xor_sync(0xffffffffu, x, 8);
}

template <class L> __device__ inline L row_max(L x)
{
  for (int step = 1; step <= 8; step = step == 1 ? 4 : 2 * step) {
    L other = __shfl_xor_sync(0xffffffffu, x, step);

    x = other > x ? other : x;
  }
  return x;
}

/* Which scores of a tile there are: bit r ACROSS + j for own row r and own column j.  Rows are
** queries and columns are keys, or (BY_KEYS) transposed. */
template <class L, bool BY_KEYS>
__device__ inline uint32_t look(const attention &w, int row0, int col0)
{
  const int n = (int)w.s.n, m = (int)w.s.m, block = (int)w.block;
  uint32_t bits = 0;

#pragma unroll
  for (int r = 0; r < tile<L>::OWN; r++) {
#pragma unroll
    for (int j = 0; j < ACROSS; j++) {
      int row = row0 + WARP + FIRST + r * 4, col = col0 + COLUMN + j * ACROSS;
      int query = BY_KEYS ? col : row, key = BY_KEYS ? row : col;
      bool sees =
          query < n && key < m && (w.causal == 0 || key <= query) &&
          (w.mask == NULL || w.mask[query / block * w.mask_row + key / block * w.mask_col] != 0);

      bits |= (uint32_t)sees << (r * ACROSS + j);
    }
  }
  return bits;
}

/* What a warp's rows see of a tile. */
struct sight {
  uint32_t own;        /* of the thread's own columns, as look() says */
  bool whole;          /* all of it */
  const uint32_t *row; /* else bit j of word h of row r is column h DEPTH + j */
};

/* The bits of own rows and columns, to where all lanes of a warp find them. */
template <class L> __device__ inline void tell(uint32_t own, uint32_t *room)
{
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 2 * tile<L>::OWN; i++) {
    const int r = i / 2, h = i % 2;
    uint32_t bits = 0;

#pragma unroll
    for (int j = 0; j < 4; j++) {
      bits |= (own >> (r * ACROSS + h * 4 + j) & 1) << (COLUMN + j * ACROSS);
    }
    bits |= __shfl_xor_sync(0xffffffffu, bits, 1);
    bits |= __shfl_xor_sync(0xffffffffu, bits, 4);
    bits |= __shfl_xor_sync(0xffffffffu, bits, 8);
    if (COLUMN == 0) {
      room[(WARP + FIRST + r * 4) * 2 + h] = bits;
    }
  }
  __syncwarp();
}

/* Which weights of a tile dropout keeps, as look() says which there are; each takes one number of
** the four that are made. */
template <class L, bool BY_KEYS>
__device__ inline uint32_t keeps_of(const attention &w, const rg_draw &draw, int64_t head, int row0,
                                    int col0)
{
  uint32_t bits = 0;

#pragma unroll 1
  for (int i = 0; i < tile<L>::OWN * ACROSS; i++) {
    const int row = row0 + WARP + FIRST + i / ACROSS * 4, col = col0 + COLUMN + i % ACROSS * ACROSS;
    const int query = BY_KEYS ? col : row, key = BY_KEYS ? row : col;
    const uint64_t at = rg_att_number(w, draw, head, query, key), first = at & ~(uint64_t)3;

    bits |= (rg_att_four(draw.seed, first, w.p) >> (at - first) & 1) << i;
  }
  return bits;
}

/* What is left of a sight behind dropout. */
template <class L> __device__ inline sight dropped(const sight &s, uint32_t keeps, uint32_t *room)
{
  const sight less = { s.own & keeps, false, room };

  tell<L>(less.own, room);
  return less;
}

/* `room`: two words for each row of the block. */
template <class L, bool BY_KEYS>
__device__ inline sight see(const attention &w, int row0, int col0, uint32_t looked, uint32_t *room)
{
  const int first = row0 + WARP, last = first + 4 * tile<L>::OWN - 1;
  sight s = { looked, false, room };

  if (w.mask != NULL) {
    s.whole = __all_sync(0xffffffffu, ~looked << (32 - tile<L>::OWN * ACROSS) == 0) != 0;
  } else {
    /* rows past the last one see what they like: they go nowhere */
    s.whole = BY_KEYS ? col0 + COLS <= w.s.n && (w.causal == 0 || last <= col0)
                      : col0 + COLS <= w.s.m && (w.causal == 0 || col0 + COLS - 1 <= first);
    s.own = s.whole ? ~0u : look<L, BY_KEYS>(w, row0, col0);
  }
  if (!s.whole) {
    tell<L>(s.own, room);
  }
  return s;
}

/* -- Pieces ------------------------------------------------------------------------------------ */

/* ROWS rows of WIDTH columns of a into shared memory, zeros where it has ended; copies are a part
** of the open group. */
template <int ROWS, int WIDTH, int PITCH, class T, class L>
__device__ inline void bring(L *to, const placed<T> &a, int row0, int col0)
{
  constexpr int VEC = tile<L>::VEC;
  const T *data = *a.data;

  if constexpr (std::is_same<T, L>::value) {
    if (a.x.wide) {
      constexpr int STEP = THREADS / (WIDTH / VEC);
      const int row = (int)threadIdx.x / (WIDTH / VEC),
                col = (int)threadIdx.x % (WIDTH / VEC) * VEC;
      const int left = col0 + col < a.x.cols ? a.x.rows - row0 - row : 0;
      const T *from = data + (row0 + row) * a.x.row + col0 + col;

      to += row * PITCH + col;
#pragma unroll 4
      for (int i = 0; i < ROWS; i += STEP) {
        rg_copy16(to + i * PITCH, i < left ? from : data, i < left);
        from += STEP * a.x.row;
      }
      return;
    }
  }
#pragma unroll 1
  for (int i = 0; i < ROWS * WIDTH / THREADS; i++) {
    int c = i * THREADS + (int)threadIdx.x;
    int row = c / WIDTH, col = c % WIDTH;
    bool there = row0 + row < a.x.rows && col0 + col < a.x.cols;
    const T *from = there ? data + (row0 + row) * a.x.row + (col0 + col) * a.x.col : data;

    if constexpr (std::is_same<T, float>::value) {
      rg_copy4(to + row * PITCH + col, from, there);
    } else {
      to[row * PITCH + col] = there ? (L)rg_get(*from) : (L)0;
    }
  }
}

/* Of so many columns there is always one, if only of zeros. */
__host__ __device__ inline int64_t pieces_of(int64_t cols)
{
  return cols > DEPTH ? (cols + DEPTH - 1) / DEPTH : cols >= 0 ? 1 : 0;
}

/* Two rooms for pieces in turn. */
template <class L> struct rooms {
  L *room;
  int turn; /* the one that is filled */

  __device__ inline L *filled() const
  {
    return room + turn * tile<L>::PIECE;
  }
  /* What was brought is there, and all are done with the other room, which is filled from now
  ** on. */
  __device__ inline const L *arrive()
  {
    const L *at = filled();

    rg_copy_wait<0>();
    __syncthreads();
    turn ^= 1;
    return at;
  }
};

/* The block's own rows as a factor: all of them stay in shared memory, or a piece comes beside each
** piece of the other factor. */
template <class T, class L> struct owned {
  placed<T> x;
  int row0;
  bool stays;
  L *room; /* [piece][row][DEPTH] */

  __device__ inline void bring_piece(int piece, int to) const
  {
    bring<tile<L>::ROWS, DEPTH, tile<L>::PITCH>(room + to * tile<L>::OWN_PIECE, x, row0,
                                                piece * DEPTH);
  }
  __device__ inline void begin() const
  {
    for (int piece = 0; stays && piece < pieces_of(x.x.cols); piece++) {
      bring_piece(piece, piece);
    }
  }
};

/* A piece of what multiply() takes, of rows row0 .. of b. */
template <class T, class L>
__device__ inline void bring_factor(const rooms<L> &to, const owned<T, L> &a, const placed<T> &b,
                                    int row0, int piece)
{
  bring<COLS, DEPTH, tile<L>::PITCH>(to.filled(), b, row0, piece * DEPTH);
  if (!a.stays) {
    a.bring_piece(piece, to.turn);
  }
}

/* A piece of what add() takes. */
template <class T, class L>
__device__ inline void bring_values(const rooms<L> &to, const placed<T> &x, int row0, int col0)
{
  bring<DEPTH, COLS, tile<L>::VALUE_PITCH>(to.filled(), x, row0, col0);
}

/* -- Products ---------------------------------------------------------------------------------- */

/* product = the block's own rows times rows b0 .. of b, whose first piece is on its way; next()
** brings what comes after. */
template <class T, class L, class N>
__device__ inline void multiply(rooms<L> &from, const owned<T, L> &a, const placed<T> &b, int b0,
                                N next, L product[tile<L>::OWN][ACROSS])
{
  constexpr int VEC = tile<L>::VEC, OWN = tile<L>::OWN, PITCH = tile<L>::PITCH;
  int piece = 0;

#pragma unroll
  for (int i = 0; i < OWN * ACROSS; i++) {
    product[i / ACROSS][i % ACROSS] = 0;
  }
  do {
    const L *left =
        a.room + (a.stays ? piece : from.turn) * tile<L>::OWN_PIECE + (WARP + FIRST) * PITCH;
    const L *right = from.arrive() + COLUMN * PITCH;

    piece++;
    if (piece * DEPTH < b.x.cols) {
      bring_factor(from, a, b, b0, piece);
    } else {
      next();
    }
    rg_copy_commit();
#pragma unroll 1 /* 128 products already: more of them want more registers */
    for (int l = 0; l < DEPTH; l += VEC) {
      vec<L> x[OWN];

#pragma unroll
      for (int r = 0; r < OWN; r++) {
        x[r] = vec_at(left + r * 4 * PITCH + l);
      }
#pragma unroll
      for (int j = 0; j < ACROSS; j++) {
        vec<L> y = vec_at(right + j * ACROSS * PITCH + l);

#pragma unroll
        for (int i = 0; i < VEC; i++) {
#pragma unroll
          for (int r = 0; r < OWN; r++) {
            product[r][j] += x[r].v[i] * y.v[i];
          }
        }
      }
    }
  } while (piece * DEPTH < b.x.cols);
}

/* sum += weights of own rows times DEPTH rows of values.  What a row does not see it does not meet,
** whatever lies there: 0 times inf is no 0. */
template <class L>
__device__ inline void add_seen(const L *weights, const L *values, const uint32_t *sees,
                                L sum[tile<L>::OWN][ACROSS])
{
  constexpr int VEC = tile<L>::VEC, OWN = tile<L>::OWN;

#pragma unroll 1
  for (int l = 0; l < DEPTH; l++) {
#pragma unroll
    for (int q = 0; q < ACROSS / VEC; q++) {
      const vec<L> y = vec_at(values + l * tile<L>::VALUE_PITCH + q * ACROSS * VEC);

#pragma unroll
      for (int r = 0; r < OWN; r++) {
        const L x = weights[r * 4 * tile<L>::WEIGHT_PITCH + l];

        if ((sees[r * 4 * 2] >> l & 1) != 0) {
#pragma unroll
          for (int e = 0; e < VEC; e++) {
            sum[r][q * VEC + e] += x * y.v[e];
          }
        }
      }
    }
  }
}

/* The same where they see all of it. */
template <class L>
__device__ inline void add_all(const L *weights, const L *values, L sum[tile<L>::OWN][ACROSS])
{
  constexpr int VEC = tile<L>::VEC, OWN = tile<L>::OWN;

#pragma unroll 1 /* 128 products already: more of them want more registers */
  for (int l = 0; l < DEPTH; l += VEC) {
    vec<L> x[OWN];

#pragma unroll
    for (int r = 0; r < OWN; r++) {
      x[r] = vec_at(weights + r * 4 * tile<L>::WEIGHT_PITCH + l);
    }
#pragma unroll
    for (int i = 0; i < VEC; i++) {
#pragma unroll
      for (int q = 0; q < ACROSS / VEC; q++) {
        const vec<L> y = vec_at(values + (l + i) * tile<L>::VALUE_PITCH + q * ACROSS * VEC);

#pragma unroll
        for (int r = 0; r < OWN; r++) {
#pragma unroll
          for (int e = 0; e < VEC; e++) {
            sum[r][q * VEC + e] += x[r].v[i] * y.v[e];
          }
        }
      }
    }
  }
}

/* sum[c] += weights of own rows times columns col0 + c COLS .. of rows x0 .. of x, whose first
** piece is on its way.  Own column q VEC + e of part c is c COLS + (q ACROSS + COLUMN) VEC + e. */
template <int N_PARTS, class T, class L, class N>
__device__ inline void add(rooms<L> &from, const L *weights, const sight &s, const placed<T> &x,
                           int x0, int col0, N next, L sum[N_PARTS][tile<L>::OWN][ACROSS])
{
  constexpr int OWN = tile<L>::OWN;
  const int halves = x.x.rows - x0 > DEPTH ? 2 : 1;

#pragma unroll
  for (int c = 0; c < N_PARTS; c++) {
    if (c == 0 || col0 + c * COLS < x.x.cols) {
#pragma unroll 1
      for (int h = 0; h < halves; h++) {
        const L *values = from.arrive() + COLUMN * tile<L>::VEC;
        const L *mine = weights + (WARP + FIRST) * tile<L>::WEIGHT_PITCH + h * DEPTH;
        L part[OWN][ACROSS]; /* long sums in float lose digits, in double they go on in order */

        if (h + 1 < halves) {
          bring_values(from, x, x0 + DEPTH, col0 + c * COLS);
        } else if (c + 1 < N_PARTS && col0 + (c + 1) * COLS < x.x.cols) {
          bring_values(from, x, x0, col0 + (c + 1) * COLS);
        } else {
          next();
        }
        rg_copy_commit();
#pragma unroll
        for (int i = 0; i < OWN * ACROSS; i++) {
          part[i / ACROSS][i % ACROSS] = sizeof(L) == 8 ? sum[c][i / ACROSS][i % ACROSS] : (L)0;
        }
        if (s.whole) {
          add_all(mine, values, part);
        } else {
          add_seen(mine, values, s.row + (WARP + FIRST) * 2 + h, part);
        }
#pragma unroll
        for (int i = 0; i < OWN * ACROSS; i++) {
          L &to = sum[c][i / ACROSS][i % ACROSS];

          to = sizeof(L) == 8 ? part[i / ACROSS][i % ACROSS] : to + part[i / ACROSS][i % ACROSS];
        }
      }
    }
  }
}

/* Where a thread's own weight is. */
template <class L> __device__ inline int weight_at(int r, int j)
{
  return (WARP + FIRST + r * 4) * tile<L>::WEIGHT_PITCH + COLUMN + j * ACROSS;
}

/* A tile of weights to where the lanes of a row find each other's, once nobody reads the last. */
template <class L> __device__ inline void put(L *weights, const L x[tile<L>::OWN][ACROSS])
{
  __syncwarp();
#pragma unroll
  for (int r = 0; r < tile<L>::OWN; r++) {
#pragma unroll
    for (int j = 0; j < ACROSS; j++) {
      weights[weight_at<L>(r, j)] = x[r][j];
    }
  }
  __syncwarp();
}

template <int N_PARTS, class T, class L>
__device__ inline void store(const matrix<T> &y, int row0, int col0,
                             const L sum[N_PARTS][tile<L>::OWN][ACROSS])
{
  constexpr int VEC = tile<L>::VEC;

#pragma unroll
  for (int i = 0; i < N_PARTS * tile<L>::OWN * (ACROSS / VEC); i++) {
    int c = i / (tile<L>::OWN * (ACROSS / VEC)), r = i / (ACROSS / VEC) % tile<L>::OWN;
    int q = i % (ACROSS / VEC);
    int row = row0 + WARP + FIRST + r * 4, col = col0 + c * COLS + (q * ACROSS + COLUMN) * VEC;
    const L *from = &sum[c][r][q * VEC];

    if (row < y.x.rows) {
      T *to = y.data + row * y.x.row + col * y.x.col;

      if constexpr (std::is_same<T, L>::value) {
        if (y.x.wide && col < y.x.cols) {
          vec<L> all;

#pragma unroll
          for (int e = 0; e < VEC; e++) {
            all.v[e] = from[e];
          }
          *(vec<L> *)to = all;
          continue;
        }
      }
#pragma unroll
      for (int e = 0; e < VEC; e++) {
        if (col + e < y.x.cols) {
          to[e * y.x.col] = rg_element<T>::of(from[e]);
        }
      }
    }
  }
}

/* The first tile of columns from col0 on that the block sees any of, and what of it. */
template <class L, bool BY_KEYS>
__device__ inline int next_tile(const attention &w, int row0, int col0, int end, uint32_t *looked)
{
  while (w.mask != NULL && col0 < end) {
    *looked = look<L, BY_KEYS>(w, row0, col0);
    if (__syncthreads_or(*looked != 0) != 0) {
      break;
    }
    col0 += COLS;
  }
  return col0;
}

#endif
