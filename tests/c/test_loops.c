/* SPDX-License-Identifier: MIT */
/*
** The loops that ceilings and the sentinel time, by what they compute, on every instruction set of
** this machine; and what each ceiling goes over, of machines made up.
*/
#include "measure/measure.h"
#include "tap.h"

static void test_loops(void)
{
  enum { FLOATS = 384 };
  static _Alignas(64) float a[FLOATS];
  static _Alignas(64) float b[FLOATS];
  static _Alignas(64) float c[FLOATS];
  static _Alignas(64) uint64_t words[256];

  for (int32_t isa = RG_ISA_BASE; isa <= rg_machine_facts()->isa_level; isa++) {
    bool good = true;
    uint64_t before;

    for (int i = 0; i < FLOATS; i++) {
      a[i] = -1;
      b[i] = (float)i;
      c[i] = 2;
    }
    rg_loop_triad(isa, a, b, c, 0.5f, FLOATS);
    for (int i = 0; i < FLOATS; i++) {
      good = good && a[i] == (float)i + 1;
    }
    ok(good, "the triad is b + s c, everywhere");
    memset(words, 0, sizeof(words));
    before = rg_loop_read(isa, words, sizeof(words), 1);
    good = true;
    for (int i = 0; i < 256; i++) {
      words[i] = 1;
      good = good && rg_loop_read(isa, words, sizeof(words), 1) != before;
      words[i] = 0;
    }
    ok(good, "the read sees every word");
  }
  rg_loop_write_past(words, sizeof(words), 7);
  ok(words[0] == 0x0707070707070707u && words[255] == 0x0707070707070707u,
     "what is written past the caches is there");
  is_int(rg_loop_chain(800), 800 + 3 * 800, "the chain adds as often as asked");
}

/* What the chains come to, in whole numbers of powers of two: exact in every type. */
static void test_chains(void)
{
  enum { FLOATS = 256 };
  static _Alignas(64) float x[FLOATS];

  for (int i = 0; i < FLOATS; i++) {
    x[i] = (float)(i + 1);
  }
  for (int32_t isa = RG_ISA_BASE; isa <= rg_machine_facts()->isa_level; isa++) {
    const double bytes = isa == RG_ISA_BASE ? 16 : isa == RG_ISA_AVX2 ? 32 : 64;

    is_int(rg_loop_vector_bytes(isa), bytes, "so wide are vectors");
    for (int64_t steps = 0; steps <= 3; steps++) {
      /* 1 + (j - 1) / 2^steps for j from 0 to 11 */
      double sum = 12 + 54 / (double)(1 << steps);

      close_to(rg_loop_fma_f32(isa, steps), bytes / 4 * sum, 0, "twelve chains of f32");
      close_to(rg_loop_fma_f64(isa, steps), bytes / 8 * sum, 0, "and of f64");
    }
    for (int64_t passes = 1; passes <= 3; passes++) {
      const int n = (int)bytes / 4 * 8; /* numbers that are added at a time */
      double sum = 0;

      for (int64_t at = 0; at < passes * FLOATS; at += n) {
        sum /= 2;
        for (int i = 0; i < n; i++) {
          sum += x[at % FLOATS + i];
        }
      }
      /* sums end with up to six bits behind the point of f32's 24 */
      close_to(rg_loop_fma_l1(isa, x, FLOATS, passes), sum, 1e-4 * sum, "eight chains from L1");
    }
  }
  if (rg_machine_facts()->isa_level >= RG_ISA_AVX512 && rg_machine_facts()->has_avx512_bf16) {
    close_to(rg_loop_dot_bf16(5), 16 * (78 + 12 * 5 * 0x1p-19), 0,
             "twelve chains of pairs of bf16");
  }
}

/* -- What each ceiling takes, of machines made up ------------------------------------- */

static void test_shares(void)
{
  enum { L1 = RG_CEILING_READ_L1, GRAIN = 12288 };
  const int64_t kilo = 1024;
  const int64_t mega = kilo * kilo;
  rg_machine m = { .l1d_bytes = 48 * kilo,
                   .l2_bytes = 1 * mega,
                   .l3_bytes = 32 * mega,
                   .ram_bytes = 64 * kilo * mega };
  static const int32_t level[][2] = { { RG_CEILING_READ_L1, RG_CEILING_TRIAD_L1 },
                                      { RG_CEILING_READ_L2, RG_CEILING_TRIAD_L2 },
                                      { RG_CEILING_READ_LLC, RG_CEILING_TRIAD_LLC },
                                      { RG_CEILING_READ_DRAM, RG_CEILING_TRIAD_DRAM } };

  for (int32_t k = 0; k < 2; k++) {
    is_int(rg_ceiling_share(&m, level[0][k], 2), 24 * kilo / GRAIN * GRAIN, "half of L1");
    is_int(rg_ceiling_share(&m, level[1][k], 2), 512 * kilo / GRAIN * GRAIN, "half of L2");
    is_int(rg_ceiling_share(&m, level[2][k], 1), 8 * mega / GRAIN * GRAIN, "eight times L2");
    is_int(rg_ceiling_share(&m, level[2][k], 4), 4 * mega / GRAIN * GRAIN,
           "or this thread's half of the last level");
    is_int(rg_ceiling_share(&m, level[2][k], 8), 2 * mega / GRAIN * GRAIN, "which is large enough");
    is_int(rg_ceiling_share(&m, level[2][k], 9), 0, "or none");
    is_int(rg_ceiling_share(&m, level[3][k], 4), 64 * mega / GRAIN * GRAIN, "256 MB of memory");
    is_int(rg_ceiling_share(&m, level[3][k], 96), 4 * mega / GRAIN * GRAIN, "or four times all L2");
  }
  m.l3_bytes = 100 * mega;
  is_int(rg_ceiling_share(&m, L1 + 3, 1), 400 * mega / GRAIN * GRAIN, "or of the last level");
  m.l3_bytes = 480 * mega;
  is_int(rg_ceiling_share(&m, L1 + 3, 1), 768 * mega / GRAIN * GRAIN, "and not more than that");
  m.ram_bytes = 1024 * mega;
  is_int(rg_ceiling_share(&m, L1 + 3, 2), 64 * mega / GRAIN * GRAIN, "nor than there is");
  m.ram_bytes = 0;
  is_int(rg_ceiling_share(&m, L1 + 3, 2), 384 * mega / GRAIN * GRAIN, "if that is known");
}

static void test_work(void)
{
  static const int32_t f32[] = { RG_CEILING_FMA_F32_BASE, RG_CEILING_FMA_F32_AVX2,
                                 RG_CEILING_FMA_F32_AVX512 };
  static const int32_t f64[] = { RG_CEILING_FMA_F64_BASE, RG_CEILING_FMA_F64_AVX2,
                                 RG_CEILING_FMA_F64_AVX512 };
  const double steps = 16384;

  for (int32_t isa = RG_ISA_BASE; isa <= RG_ISA_AVX512; isa++) {
    double bytes = 16 << isa;

    is_int(rg_ceiling_work(f32[isa], isa, 0), steps * 12 * 2 * bytes / 4,
           "products and sums of f32");
    is_int(rg_ceiling_work(f64[isa], isa, 0), steps * 12 * 2 * bytes / 8, "and of f64");
  }
  is_int(rg_ceiling_work(RG_CEILING_DOT_BF16, RG_ISA_AVX512, 0), steps * 12 * 64, "pairs of bf16");
  is_int(rg_ceiling_work(RG_CEILING_AMX_BF16, RG_ISA_AVX512, 0), steps * 65536, "tiles of them");
  for (int32_t k = RG_CEILING_READ_L1; k <= RG_CEILING_READ_DRAM; k++) {
    is_int(rg_ceiling_work(k, 0, 24576), 11 * 24576, "a small share is read several times");
    is_int(rg_ceiling_work(k, 0, 300000), 300000, "a large one once");
  }
  for (int32_t k = RG_CEILING_TRIAD_L1; k <= RG_CEILING_TRIAD_DRAM; k++) {
    is_int(rg_ceiling_work(k, 0, 24576), 24576, "the triad goes over each once");
  }
}

int main(void)
{
  test_loops();
  test_chains();
  test_shares();
  test_work();
  return done();
}
