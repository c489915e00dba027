// SPDX-License-Identifier: MIT
//
// Tensor cores of the simulator, with the layouts of registers that the PTX manual gives, and
// copies that arrive at their wait.
#include "sim.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sim
{

// -- Tiles -----------------------------------------------------------------------------

static const rgsim_tile &tile_of(const Thread &t)
{
  return *reinterpret_cast<const rgsim_tile *>(static_cast<uintptr_t>(t.in));
}

static uint16_t half_of(const unsigned *words, int i)
{
  return static_cast<uint16_t>(words[i / 2] >> (i % 2 * 16));
}

static float number(uint16_t bits, bool brain)
{
  if (brain) {
    __nv_bfloat16_raw raw;
    raw.x = bits;
    return __bfloat162float(__nv_bfloat16(raw));
  }
  __half_raw raw;
  raw.x = bits;
  return __half2float(__half(raw));
}

// c += a b, each sum in the order of its terms.
static void multiply(Thread *const *lanes, bool brain)
{
  float a[16][16], b[16][8];
  for (int l = 0; l < WARP; l++) {
    const rgsim_tile &t = tile_of(*lanes[l]);
    int g = l / 4, q = l % 4 * 2;
    for (int i = 0; i < 8; i++)
      a[g + i / 2 % 2 * 8][q + i % 2 + i / 4 * 8] = number(half_of(t.a, i), brain);
    for (int i = 0; i < 4; i++)
      b[q + i % 2 + i / 2 * 8][g] = number(half_of(t.b, i), brain);
  }
  for (int l = 0; l < WARP; l++) {
    const rgsim_tile &t = tile_of(*lanes[l]);
    for (int i = 0; i < 4; i++) {
      int row = l / 4 + i / 2 * 8, col = l % 4 * 2 + i % 2;
      float sum = t.c[i];
      for (int k = 0; k < 16; k++)
        sum += a[row][k] * b[k][col];
      t.c[i] = sum;
    }
  }
}

// The same of TF32: m16n8k8, of whose factors the low 13 bits are not looked at.
static void multiply_tf32(Thread *const *lanes)
{
  float a[16][8], b[8][8];
  auto cut = [](unsigned bits) {
    float x;
    bits &= ~0x1fffu;
    memcpy(&x, &bits, sizeof x);
    return x;
  };
  for (int l = 0; l < WARP; l++) {
    const rgsim_tile &t = tile_of(*lanes[l]);
    int g = l / 4, q = l % 4;
    for (int i = 0; i < 4; i++)
      a[g + i % 2 * 8][q + i / 2 * 4] = cut(t.a[i]);
    for (int i = 0; i < 2; i++)
      b[q + i * 4][g] = cut(t.b[i]);
  }
  for (int l = 0; l < WARP; l++) {
    const rgsim_tile &t = tile_of(*lanes[l]);
    for (int i = 0; i < 4; i++) {
      int row = l / 4 + i / 2 * 8, col = l % 4 * 2 + i % 2;
      float sum = t.c[i];
      for (int k = 0; k < 8; k++)
        sum += a[row][k] * b[k][col];
      t.c[i] = sum;
    }
  }
}

// The same of bytes, with whole sums: m16n8k32 of .s8. Four neighbours along the inner axis are one
// register, the first one lowest; a[1] and a[3] are eight rows further, a[2], a[3] and b[1] sixteen
// steps.
static void multiply_bytes(Thread *const *lanes)
{
  int a[16][32], b[32][8];
  for (int l = 0; l < WARP; l++) {
    const rgsim_tile &t = tile_of(*lanes[l]);
    int g = l / 4, q = l % 4 * 4;
    for (int i = 0; i < 16; i++) {
      int8_t v = static_cast<int8_t>(t.a[i / 4] >> (i % 4 * 8));
      a[g + i / 4 % 2 * 8][q + i % 4 + i / 8 * 16] = v;
    }
    for (int i = 0; i < 8; i++) {
      int8_t v = static_cast<int8_t>(t.b[i / 4] >> (i % 4 * 8));
      b[q + i % 4 + i / 4 * 16][g] = v;
    }
  }
  for (int l = 0; l < WARP; l++) {
    const rgsim_tile &t = tile_of(*lanes[l]);
    for (int i = 0; i < 4; i++) {
      int row = l / 4 + i / 2 * 8, col = l % 4 * 2 + i % 2;
      unsigned sum = static_cast<unsigned>(t.whole[i]); // it wraps around
      for (int k = 0; k < 32; k++)
        sum += static_cast<unsigned>(a[row][k] * b[k][col]);
      t.whole[i] = static_cast<int>(sum);
    }
  }
}

static void load(Thread *const *lanes, bool transposed)
{
  const uint16_t *rows[WARP];
  for (int l = 0; l < WARP; l++) {
    const void *row = tile_of(*lanes[l]).row;
    if (reinterpret_cast<uintptr_t>(row) % 16) {
      fail(lanes[l]->place, "a row of a tile is not at a multiple of 16 bytes");
    }
    rows[l] = static_cast<const uint16_t *>(row);
  }
  for (int l = 0; l < WARP; l++) {
    const rgsim_tile &t = tile_of(*lanes[l]);
    int g = l / 4, q = l % 4 * 2;
    for (int i = 0; i < 4; i++) {
      unsigned low = transposed ? rows[i * 8 + q][g] : rows[i * 8 + g][q];
      unsigned high = transposed ? rows[i * 8 + q + 1][g] : rows[i * 8 + g][q + 1];
      t.r[i] = low | high << 16;
    }
  }
}

void tensor(Thread *const *lanes, int op)
{
  if (op == RGSIM_MMA_BF16 || op == RGSIM_MMA_F16) {
    multiply(lanes, op == RGSIM_MMA_BF16);
  } else if (op == RGSIM_MMA_TF32) {
    multiply_tf32(lanes);
  } else if (op == RGSIM_MMA_BYTES) {
    multiply_bytes(lanes);
  } else {
    load(lanes, op == RGSIM_TILES_TRANSPOSED);
  }
}

// -- Copies ----------------------------------------------------------------------------

enum { MOST = 256 };

struct Copy {
  void *to;
  const void *from; // null: zeros
  int bytes, group;
};

// Of each thread: what is under way, a ring, and the number of the group that is open.
struct Copies {
  Copy ring[MOST];
  int first, n, group;
};

static Copies copies[MAX_THREADS];

void copies_thread_ended(const Thread &t)
{
  Copies &c = copies[t.number];
  if (c.n) fail(t.place, "a thread has ended without a wait for its copies (cp.async)");
  c.group = 0;
}

static bool is_early(void)
{
  const char *s = getenv("RG_SIM_CP");
  if (!s || !*s || !strcmp(s, "late")) return false;
  if (strcmp(s, "early")) {
    fprintf(stderr, "cudasim: RG_SIM_CP is early or late, not '%s'\n", s);
    abort();
  }
  return true;
}

} // namespace sim

int rgsim_copy_begin(void *to, const void *from, int bytes, const char *file, int line)
{
  using namespace sim;
  current->place = { "cp.async", file, line };
  uintptr_t both = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  if (both % static_cast<uintptr_t>(bytes)) {
    fail(current->place, "an address is not a multiple of as many bytes as it copies");
  }
  if (is_early()) return 1;
  Copies &c = copies[current->number];
  if (c.n == MOST) fail(current->place, "more than 128 copies of one thread are under way");
  c.ring[(c.first + c.n++) % MOST] = { to, from, bytes, c.group };
  return 0;
}

void rgsim_copy_commit(void)
{
  sim::copies[sim::current->number].group++;
}

int rgsim_copy_due(int keep, void **to, const void **from, int *bytes)
{
  sim::Copies &c = sim::copies[sim::current->number];
  if (!c.n || c.ring[c.first].group >= c.group - keep) return 0;
  *to = c.ring[c.first].to;
  *from = c.ring[c.first].from;
  *bytes = c.ring[c.first].bytes;
  c.first = (c.first + 1) % sim::MOST;
  c.n--;
  return 1;
}
