// SPDX-License-Identifier: MIT
//
// Division by prepared multiplication (gpu/divide.cuh) is division: for divisors and numbers at the
// edges of powers of two, and by chance.
#define __host__
#define __device__
#include "gpu/divide.cuh"

#include <cstdio>

static uint32_t state = 1;

static uint32_t any(void)
{
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

// A power of two or beside one, or anything of any length; from 0 to 2^31 - 1.
static int32_t number(void)
{
  const int length = (int)(any() % 32);
  const int64_t edge = ((int64_t)1 << length) + (int64_t)(any() % 5) - 2;
  const int64_t x = any() % 2 ? edge : (int64_t)(any() >> 1 >> length);
  return (int32_t)(x < 0 ? 0 : x > INT32_MAX ? INT32_MAX : x);
}

int main()
{
  long wrong = 0;
  for (long i = 0; i < 4000000; i++) {
    const int32_t n = number(), by = number();
    const int32_t d = by < 1 ? 1 : by;
    wrong += n / rg_divisor<int32_t>::of(d) != n / d;
    wrong += (int64_t)n / rg_divisor<int64_t>::of(d) != n / d;
  }
  printf("%s 1 - quotients: %ld are wrong\n", wrong == 0 ? "ok" : "not ok", wrong);
  const bool empty = 7 / rg_divisor<int32_t>::of(0) == 7;
  printf("%s 2 - what is empty divides by 1\n1..2\n", empty ? "ok" : "not ok");
  return wrong != 0 || !empty;
}
