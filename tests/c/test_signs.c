/* SPDX-License-Identifier: MIT */
/*
** What products with fixed signs on AMX prepare: bits as tiles of +-1, numbers as sums of three in
** bf16.  Each writes what is its own and nothing behind it, whatever the length.
*/
#include <math.h>
#include <string.h>

#include "cpu/gemm.h"
#include "ridge.h"
#include "tap.h"

enum { MOST = 3 * RG_BF16_STEP + 5, GUARD = 4096, UNTOUCHED = 0x1234 };

static uint64_t state = 1;

static uint32_t draw(void)
{
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 32);
}

static float of_bf16(uint16_t h)
{
  uint32_t bits = (uint32_t)h << 16;
  float x;

  memcpy(&x, &bits, sizeof(x));
  return x;
}

/* -- Bits as tiles ---------------------------------------------------------------------------- */

/* Where the sign of column c in step l stands: pairs of steps, in tiles of 16 columns. */
static int64_t place(int64_t l, int64_t c)
{
  int64_t tile = l / RG_BF16_STEP * 2 + c / 16;

  return tile * RG_BF16_STEP * 16 + l % RG_BF16_STEP / 2 * 32 + c % 16 * 2 + l % 2;
}

static void test_expand(void)
{
  static uint16_t tiles[MOST * RG_PANEL + RG_BF16_STEP * RG_PANEL + GUARD];
  uint32_t words[MOST];
  bool same = true, padded = true, guarded = true;

  for (int64_t k = 1; k <= MOST; k++) {
    const int64_t padded_k = (k + RG_BF16_STEP - 1) / RG_BF16_STEP * RG_BF16_STEP;
    const int64_t n = padded_k * RG_PANEL;

    for (int64_t i = 0; i < n + GUARD; i++) {
      tiles[i] = UNTOUCHED;
    }
    for (int64_t l = 0; l < k; l++) {
      words[l] = draw();
    }
    rg_amx_expand(words, k, tiles);
    for (int64_t c = 0; c < RG_PANEL; c++) {
      for (int64_t l = 0; l < padded_k; l++) {
        const float sign = of_bf16(tiles[place(l, c)]);

        if (l < k) {
          same = same && sign == ((words[l] >> c & 1) != 0 ? 1.0f : -1.0f);
        } else {
          padded = padded && fabsf(sign) == 1; /* multiplied by zeros, which a nan would survive */
        }
      }
    }
    for (int64_t i = n; i < n + GUARD; i++) {
      guarded = guarded && tiles[i] == UNTOUCHED;
    }
  }
  ok(same, "each bit is a sign in its place");
  ok(padded, "behind the last step stand numbers");
  ok(guarded, "and nothing behind the last tile");
}

/* -- Numbers in parts ------------------------------------------------------------------------- */

static void test_split(void)
{
  enum { PARTS = 3, ROOM = MOST + 64 };
  float x[MOST];
  uint16_t y[PARTS * ROOM];
  bool exact = true, special = true, guarded = true;

  for (int64_t n = 1; n <= MOST; n++) {
    for (int64_t i = 0; i < n; i++) {
      x[i] = ldexpf((float)((int32_t)draw() >> 7), (int)(draw() % 60) - 60);
    }
    x[draw() % n] = n % 3 == 0 ? INFINITY : n % 3 == 1 ? -0.0f : NAN;
    for (int64_t i = 0; i < PARTS * ROOM; i++) {
      y[i] = UNTOUCHED;
    }
    rg_amx_split(x, y, ROOM, n);
    for (int64_t i = 0; i < n; i++) {
      const double a = of_bf16(y[i]), b = of_bf16(y[ROOM + i]), c = of_bf16(y[2 * ROOM + i]);

      if (isfinite(x[i])) {
        exact = exact && a + b + c == (double)x[i];
      } else {
        special = special && (isnan(x[i]) ? isnan(a) : a == (double)x[i]) && b == 0 && c == 0;
      }
    }
    for (int64_t i = 0; i < PARTS * ROOM; i++) {
      guarded = guarded && (i % ROOM < n || y[i] == UNTOUCHED);
    }
  }
  ok(exact, "three parts are a number, exactly");
  ok(special, "an infinity and a nan are their first part alone");
  ok(guarded, "nothing is written behind the last number");
}

int main(void)
{
  if (!rg_amx_usable()) {
    ok(true, "nothing to try # SKIP this machine has no AMX");
    return done();
  }
  test_expand();
  test_split();
  return done();
}
