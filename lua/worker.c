/* SPDX-License-Identifier: MIT */
/*
** Functions in Lua that change the rows of a batch, each thread in a Lua state of its own: what the
** loader's threads run (core/data/loader.c).  A function comes as bytecode, made in this process.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "base/base.h"
#include "ridge/data.h"

typedef struct chunk {
  rg_transform transform; /* first: one is freed as the other */
  size_t size;
  const char *types; /* a C type for each field and how many numbers a row has: "float 784;..." */
  char bytes[];
} chunk;

/* Calls f(number, row of the first field, of the second ...) for every row of a batch. */
static const char driver[] =
    "local ffi = require 'ffi'\n"
    "local jit, next = require 'jit', next\n"
    "if jit.arch == 'x64' and jit.version:find 'beta' then\n" /* why: lua/ridge/pairs.lua */
    "  local function step(t, key) return next(t, key) end\n"
    "  jit.off(step)\n"
    "  _G.next = step\n"
    "  function _G.pairs(t) return step, t, nil end\n"
    "end\n"
    "local f, types = ...\n"
    "local kind, step, n = {}, {}, 0\n"
    "for t, s in types:gmatch '([%w_]+) (%d+);' do\n"
    "  n = n + 1\n"
    "  kind[n], step[n] = ffi.typeof(t .. ' *'), tonumber(s)\n"
    "end\n"
    "local row = {}\n"
    "return function(fields, index, rows)\n"
    "  fields, index = ffi.cast('void **', fields), ffi.cast('int64_t *', index)\n"
    "  for i = 0, rows - 1 do\n"
    "    for k = 1, n do row[k] = ffi.cast(kind[k], fields[k - 1]) + i * step[k] end\n"
    "    f(tonumber(index[i]), unpack(row, 1, n))\n"
    "  end\n"
    "end\n";

static int32_t failed(lua_State *L, char *message, int64_t room)
{
  const char *text = lua_tostring(L, -1);

  (void)snprintf(message, (size_t)room, "%s", text ? text : "an error without a message");
  lua_settop(L, 0);
  return -1;
}

/* The state's stack holds the driver's function. */
static int32_t open_state(void *given, void **state, char *message, int64_t room)
{
  const chunk *c = given;
  lua_State *L = luaL_newstate();

  if (!L) {
    (void)snprintf(message, (size_t)room, "no memory for a Lua state");
    return -1;
  }
  luaL_openlibs(L);
  if (luaL_loadbuffer(L, driver, sizeof(driver) - 1, "=transform") != 0 ||
      luaL_loadbuffer(L, c->bytes, c->size, "=transform") != 0) {
    failed(L, message, room);
    lua_close(L);
    return -1;
  }
  lua_pushstring(L, c->types);
  if (lua_pcall(L, 2, 1, 0) != 0) {
    failed(L, message, room);
    lua_close(L);
    return -1;
  }
  *state = L;
  return 0;
}

static int32_t run(void *state, void *const *fields, const int64_t *index, int64_t rows,
                   char *message, int64_t room)
{
  lua_State *L = state;

  lua_pushvalue(L, 1);
  lua_pushlightuserdata(L, (void *)(size_t)fields);
  lua_pushlightuserdata(L, (void *)(size_t)index);
  lua_pushinteger(L, (lua_Integer)rows);
  if (lua_pcall(L, 3, 0, 0) != 0) {
    const char *text = lua_tostring(L, -1);

    (void)snprintf(message, (size_t)room, "%s", text ? text : "an error without a message");
    lua_settop(L, 1);
    return -1;
  }
  return 0;
}

static void close_state(void *state)
{
  lua_close(state);
}

rg_status rg_transform_new(const char *bytecode, int64_t size, const char *types,
                           rg_transform **out)
{
  size_t length = strlen(types);
  chunk *c = malloc(sizeof(*c) + (size_t)size + length + 1);

  if (!c) {
    return rg_fail(RG_ENOMEM, "loader: no memory for a transform of %lld bytes", (long long)size);
  }
  c->transform = (rg_transform){
    .given = c, .open = open_state, .run = run, .close = close_state, .drop = free
  };
  c->size = (size_t)size;
  memcpy(c->bytes, bytecode, (size_t)size);
  memcpy(c->bytes + size, types, length + 1);
  c->types = c->bytes + size;
  *out = &c->transform;
  return RG_OK;
}

void rg_transform_release(rg_transform *transform)
{
  free(transform);
}
