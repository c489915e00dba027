/* SPDX-License-Identifier: MIT */
/*
** Streams of random numbers: a seed and how far it was drawn (Philox itself is in shared.h).
*/
#include <stdatomic.h>
#include <sys/random.h>
#include <time.h>

#include "base/base.h"

struct rg_generator {
  _Atomic int64_t refs;
  _Atomic uint64_t seed;
  _Atomic uint64_t offset;
};

/* -- Streams ------------------------------------------------------------------- */

rg_status rg_generator_new(uint64_t seed, rg_generator **out)
{
  rg_generator *generator;

  if (out == NULL) {
    return rg_fail(RG_EARG, "generator: out is NULL");
  }
  generator = rg_host_zeroed(sizeof(*generator));
  if (generator == NULL) {
    return rg_fail(RG_ENOMEM, "generator: no memory for its state");
  }
  atomic_init(&generator->refs, 1);
  atomic_init(&generator->seed, seed);
  *out = generator;
  return RG_OK;
}

rg_generator *rg_generator_retain(rg_generator *generator)
{
  if (generator != NULL) {
    atomic_fetch_add(&generator->refs, 1);
  }
  return generator;
}

void rg_generator_release(rg_generator *generator)
{
  if (generator != NULL && atomic_fetch_sub(&generator->refs, 1) == 1) {
    rg_host_free(generator);
  }
}

uint64_t rg_generator_seed(const rg_generator *generator)
{
  return generator == NULL ? 0 : atomic_load(&generator->seed);
}

uint64_t rg_generator_offset(const rg_generator *generator)
{
  return generator == NULL ? 0 : atomic_load(&generator->offset);
}

void rg_generator_set(rg_generator *generator, uint64_t seed, uint64_t offset)
{
  if (generator != NULL) {
    atomic_store(&generator->seed, seed);
    atomic_store(&generator->offset, offset);
  }
}

uint64_t rg_generator_take(rg_generator *generator, uint64_t n)
{
  return atomic_fetch_add(&generator->offset, n);
}

bool rg_generator_give_back(rg_generator *generator, uint64_t offset, uint64_t n)
{
  uint64_t stands = offset + n;

  return atomic_compare_exchange_strong(&generator->offset, &stands, offset);
}

/* -- The default stream -------------------------------------------------------- */

static rg_generator default_stream = { .refs = 1 };

/* A seed from the system, 53 bits so that Lua and JSON keep it exactly.  Taken at start, so that no
** two threads race for it. */
__attribute__((constructor)) static void seed_from_system(void)
{
  uint64_t seed = 0;
  struct timespec t;

  if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed)) {
    clock_gettime(CLOCK_REALTIME, &t);
    seed = (uint64_t)t.tv_nsec * 2654435761u ^ (uint64_t)t.tv_sec;
  }
  rg_seed(seed >> 11);
}

rg_generator *rg_generator_default(void)
{
  return &default_stream;
}

void rg_seed(uint64_t seed)
{
  rg_generator_set(&default_stream, seed, 0);
}
