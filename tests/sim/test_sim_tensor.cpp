// SPDX-License-Identifier: MIT
//
// Tests of the simulator's tensor cores and asynchronous copies.
#include "test_sim_tap.h"

// Small whole numbers, whose products and sums every type holds.
static std::vector<float> whole(int n, unsigned state)
{
  std::vector<float> v(static_cast<size_t>(n));
  for (float &x : v) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 24) / 16.0f - 8.0f;
    x = std::floor(x);
  }
  return v;
}

static double product_error(bool brain, int how)
{
  std::vector<float> a = whole(256, 1), b = whole(128, 2);
  std::vector<double> expected(128, 0.0);
  for (size_t i = 0; i < 128; i++) {
    for (size_t k = 0; k < 16; k++)
      expected[i] += static_cast<double>(a[i / 8 * 16 + k]) * static_cast<double>(b[k * 8 + i % 8]);
  }
  Array<float> da(a), db(b), dc(128);
  test_product(dc.p, da.p, db.p, brain, how, nullptr);
  return distance(dc.host(), expected);
}

// Factors of TF32 have 10 bits of fraction: `rounded` to the nearest, from the middle away from 0,
// or cut.
static bool tf32_right(bool rounded)
{
  std::vector<float> a = whole(128, 1), b = whole(64, 2);
  const float bit = 1.0f / 1024, tenth[] = { bit / 2, -bit / 2, bit / 4, bit * 3 / 4 };
  const float to[] = { bit, -bit, 0, bit }, cut[] = { 0, 0, 0, 0 };
  std::vector<double> expected(128, 0.0);
  for (size_t row = 0; row < 16; row++) { // one factor of each row has more digits
    float sign = row % 4 == 1 ? -1.0f : 1.0f;
    a[row * 8 + row % 8] = sign + tenth[row % 4];
  }
  for (size_t i = 0; i < 128; i++) {
    for (size_t k = 0; k < 8; k++) {
      size_t row = i / 8;
      float x = a[row * 8 + k];
      if (k == row % 8)
        x = (row % 4 == 1 ? -1.0f : 1.0f) + (rounded ? to : cut)[row % 4];
      expected[i] += static_cast<double>(x) * static_cast<double>(b[k * 8 + i % 8]);
    }
  }
  Array<float> da(a), db(b), dc(128);
  test_tf32(dc.p, da.p, db.p, rounded, nullptr);
  return distance(dc.host(), expected) == 0;
}

// All of the range, -128 too.
static bool bytes_right(int how)
{
  std::vector<signed char> a(512), b(256);
  for (size_t i = 0; i < 512; i++)
    a[i] = static_cast<signed char>(i * 37 % 256 - 128);
  for (size_t i = 0; i < 256; i++)
    b[i] = static_cast<signed char>(i * 91 % 256 - 128);
  Array<signed char> da(a), db(b);
  Array<int> dc(128);
  test_bytes(dc.p, da.p, db.p, how, nullptr);
  std::vector<int> got = dc.host();
  for (size_t i = 0; i < 128; i++) {
    int sum = static_cast<int>(i / 64 * 2 + i % 2 + 1); // what the registers held
    for (size_t k = 0; k < 32; k++)
      sum += a[i / 8 * 32 + k] * b[k * 8 + i % 8];
    if (got[i] != sum) return false;
  }
  return true;
}

static bool tiles_right(bool transposed)
{
  Array<unsigned> r(128);
  test_tiles(r.p, transposed, nullptr);
  std::vector<unsigned> got = r.host();
  for (unsigned lane = 0; lane < 32; lane++) {
    for (unsigned i = 0; i < 4; i++) {
      unsigned row = lane / 4, col = lane % 4 * 2; // of matrix i
      unsigned low = i * 64 + (transposed ? col * 8 + row : row * 8 + col);
      unsigned high = low + (transposed ? 8 : 1);
      if (got[lane * 4 + i] != (low | high << 16)) return false;
    }
  }
  return true;
}

static double pipeline_error(bool wait, bool barrier)
{
  enum { N = 512 * 5 };
  std::vector<float> x = numbers(N);
  std::vector<double> expected(x.begin(), x.end());
  for (double &e : expected)
    e *= 2;
  Array<float> dx(x), dy(N);
  test_pipeline(dy.p, dx.p, N, wait, barrier, nullptr);
  return distance(dy.host(), expected);
}

void test_tensor(const std::string &in)
{
  for (bool brain : { true, false }) {
    std::string what = std::string(brain ? "bf16" : "f16") + in;
    ok(product_error(brain, BY_LAYOUT) == 0, "a product of tiles by the layout, " + what);
    ok(product_error(brain, BY_TILES) == 0, "with factors from ldmatrix, " + what);
    ok(product_error(brain, BY_TRANSPOSED_TILES) == 0, "with both transposed, " + what);
  }
  ok(tf32_right(true), "a product of TF32 with rounded factors" + in);
  ok(tf32_right(false), "which are cut otherwise" + in);
  ok(bytes_right(BY_LAYOUT), "a product of bytes by the layout" + in);
  ok(bytes_right(BY_TILES), "with factors from ldmatrix, bytes" + in);
  ok(tiles_right(false) && tiles_right(true), "ldmatrix, and transposed" + in);
  ok(pipeline_error(true, true) == 0, "two buffers in turn" + in);
}

void test_tensor_planted(void)
{
  setenv("RG_SIM_CP", "late", 1);
  set_order("fwd");
  ok(pipeline_error(false, true) >= 1e6, "a missing wait for a copy reads NaN");
  int wrong = 0;
  for (const char *when : { "early", "late" }) {
    setenv("RG_SIM_CP", when, 1);
    for (const char *order : ORDERS) {
      set_order(order);
      wrong += pipeline_error(true, false) > 1e-3;
    }
  }
  ok(wrong > 0, "a buffer that is filled while others read it is wrong in some order");
  setenv("RG_SIM_CP", "late", 1);
}
