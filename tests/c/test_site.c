/* SPDX-License-Identifier: MIT */
/* Memory by line of the caller's source and by module (base/site.c). */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "ridge/ring.h"
#include "ridge/tensor.h"
#include "tap.h"

/* What sites say of one line in one module; zeros where there is none of it. */
static rg_site_memory site_named(const char *line, const char *module)
{
  rg_site_memory m = { 0 };

  for (int32_t i = 1; i <= rg_memory_site_count(); i++) {
    is_status(rg_memory_site_of(RG_CPU, i, &m), RG_OK, "a site that is there");
    if (m.line != NULL && strcmp(m.line, line) == 0 &&
        strcmp(m.module != NULL ? m.module : "", module) == 0) {
      return m;
    }
  }
  return (rg_site_memory){ 0 };
}

static void test_sites(void)
{
  rg_block a;
  rg_block b;
  rg_block c;
  rg_block d;
  rg_place before;
  rg_site_memory m;

  rg_line_set("a.lua:1");
  is_status(rg_block_alloc(RG_CPU, 100, &d), RG_OK, "before it is on");
  is_int(rg_memory_sites(1), 0, "it was off");
  is_status(rg_block_alloc(RG_CPU, 100, &a), RG_OK, "a block of a line");
  is_int(rg_range_begin("net.1", 1, &before), -1, "nobody hears ranges");
  is_status(rg_block_alloc(RG_CPU, 50, &b), RG_OK, "of the line in a module");
  rg_range_end(-1, &before);
  rg_line_set("a.lua:2");
  is_status(rg_block_alloc(RG_CPU, 7, &c), RG_OK, "and of another line");
  is_int(rg_memory_sites(0), 1, "it was on");
  rg_line_set(NULL);
  m = site_named("a.lua:1", "");
  is_int(m.live_bytes, 100, "bytes by line");
  is_int(m.n_blocks, 1, "and blocks");
  is_int(site_named("a.lua:1", "net.1").live_bytes, 50, "apart by module");
  is_int(site_named("a.lua:2", "").live_bytes, 7, "apart by line");
  rg_block_free(&a);
  rg_block_free(&d);
  m = site_named("a.lua:1", "");
  is_int(m.live_bytes, 0, "until they are freed, whether it is on or not");
  is_int(m.n_blocks, 0, "all of them");
  is_int(m.peak_bytes, 100, "the peak stays");
  rg_memory_reset_peak(RG_CPU);
  is_int(site_named("a.lua:1", "").peak_bytes, 0, "until it starts again");
  is_int(site_named("a.lua:2", "").peak_bytes, 7, "at what is live");
  rg_block_free(&b);
  rg_block_free(&c);
  is_status(rg_memory_site_of(RG_CPU, 0, &m), RG_EARG, "none of number 0");
  is_status(rg_memory_site_of(RG_CPU, rg_memory_site_count() + 1, &m), RG_EARG, "nor behind");
  is_status(rg_memory_site_of(-1, 1, &m), RG_EARG, "nor of no device");
  is_status(rg_memory_site_of(RG_CPU, 1, NULL), RG_EARG, "nor for nobody");
}

/* Lines beyond the table share the first place: nothing is lost. */
static void test_sites_full(void)
{
  enum { BLOCKS = 5000 };
  static rg_block blocks[BLOCKS];
  rg_site_memory m = { 0 };
  int64_t sum = 0;
  int taken = 0;
  char line[32];

  (void)rg_memory_sites(1);
  for (int i = 0; i < BLOCKS; i++) {
    snprintf(line, sizeof(line), "many.lua:%d", i);
    rg_line_set(line);
    taken += rg_block_alloc(RG_CPU, 64, &blocks[i]) == RG_OK;
  }
  (void)rg_memory_sites(0);
  rg_line_set(NULL);
  is_int(taken, BLOCKS, "more lines than the table has");
  is_status(rg_memory_site_of(RG_CPU, 1, &m), RG_OK, "the first");
  ok(strcmp(m.line, "(more lines)") == 0 && m.n_blocks > 900, "has what found no place");
  for (int32_t i = 1; i <= rg_memory_site_count(); i++) {
    if (rg_memory_site_of(RG_CPU, i, &m) == RG_OK) {
      sum += m.live_bytes;
    }
  }
  is_int(sum, (int64_t)64 * BLOCKS, "and nothing is lost");
  for (int i = 0; i < BLOCKS; i++) {
    rg_block_free(&blocks[i]);
  }
}

int main(void)
{
  test_sites();
  test_sites_full();
  is_int(rg_memory_of(RG_CPU)->live_bytes, 0, "no memory is left");
  return done();
}
