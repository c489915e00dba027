/* SPDX-License-Identifier: MIT */
/*
** What the flags of the command line set in the core, before any Lua code of ridge is loaded, and
** what the session watches: the bytes that live tensors hold, and the limit of the process.
*/
#include "host.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include "ridge/base.h"

/* host.set_threads(n): true, or nil and the reason. */
static int host_set_threads(lua_State *L)
{
  const double n = luaL_checknumber(L, 1);

  if (!(n >= INT32_MIN && n <= INT32_MAX) || rg_set_threads((int32_t)n) != RG_OK) {
    lua_pushnil(L);
    lua_pushstring(L, n >= INT32_MIN && n <= INT32_MAX ? rg_error_message() : "out of range");
    return 2;
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* host.seed(n): seed the default stream of random numbers; n is a whole number from 0 to 2^53. */
static int host_seed(lua_State *L)
{
  rg_seed((uint64_t)luaL_checknumber(L, 1));
  return 0;
}

/* host.machine(): the processor's name, threads in use, the instruction set of ridge's kernels. */
static int host_machine(lua_State *L)
{
  static const char *const names[RG_ISA_COUNT] = { "baseline", "AVX2", "AVX-512", "AVX-512 BF16",
                                                   "AMX" };
  const rg_machine *machine = rg_machine_facts();
  const int32_t level = rg_isa();

  lua_pushstring(L, machine->cpu[0] ? machine->cpu : "of an unknown kind");
  lua_pushinteger(L, rg_threads());
  lua_pushstring(L, level >= 0 && level < RG_ISA_COUNT ? names[level] : "unknown");
  lua_pushnumber(L, (lua_Number)machine->ram_bytes);
  return 4;
}

/* host.seconds(): a clock that only goes forward. */
static int host_seconds(lua_State *L)
{
  lua_pushnumber(L, (lua_Number)rg_clock_ns() * 1e-9);
  return 1;
}

/* host.live_bytes(): bytes in live tensors of the CPU. */
static int host_live_bytes(lua_State *L)
{
  lua_pushnumber(L, (lua_Number)rg_memory_of(0)->live_bytes);
  return 1;
}

/*
** host.limit_memory(bytes): let allocations beyond that fail instead of having the system kill the
** process: in a session a typed loop that fills memory must end in an error.  Not in a build with a
** sanitizer, whose shadow memory counts as data too.
*/
static int host_limit_memory(lua_State *L)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  (void)L;
  return 0;
#else
  const rlim_t bytes = (rlim_t)luaL_checknumber(L, 1);
  struct rlimit limit;

  if (getrlimit(RLIMIT_DATA, &limit) == 0 && bytes < limit.rlim_cur) {
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_DATA, &limit);
  }
  return 0;
#endif
}

/* host.ignore_pipes(): a write to a closed pipe is the writer's error, not ridge's end. */
static int host_ignore_pipes(lua_State *L)
{
  (void)L;
  signal(SIGPIPE, SIG_IGN);
  return 0;
}

void rg_host_settings(lua_State *L)
{
  static const luaL_Reg functions[] = {
    { "set_threads", host_set_threads }, { "seed", host_seed },
    { "live_bytes", host_live_bytes },   { "limit_memory", host_limit_memory },
    { "seconds", host_seconds },         { "ignore_pipes", host_ignore_pipes },
    { "machine", host_machine },         { NULL, NULL },
  };
  luaL_register(L, NULL, functions);
}
