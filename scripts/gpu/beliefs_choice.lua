-- SPDX-License-Identifier: MIT
-- How cublasLt chooses, captures, keeps and times: a part of beliefs.lua.

local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'

local belief = ... -- beliefs.lua
local lt = belief.lt
local probe, failed, look, missing = belief.probe, belief.failed, belief.look, belief.missing
local sample, differs, by_library = belief.sample, belief.differs, belief.by_library
local tiny = belief.opt.tiny
local DEVICE = ridge.device.best()
local modes = C.rg_device_modes_now()

ffi.cdef [[
typedef struct lua_State lua_State;
lua_State *luaL_newstate(void);
void luaL_openlibs(lua_State *L);
int luaL_loadstring(lua_State *L, const char *text);
int lua_pcall(lua_State *L, int arguments, int results, int handler);
double lua_tonumber(lua_State *L, int index);
const char *lua_tolstring(lua_State *L, int index, size_t *size);
void lua_close(lua_State *L);
int pthread_create(unsigned long *thread, const void *attributes, void *(*f)(void *), void *data);
int pthread_join(unsigned long thread, void **result);
]]

-- Products that are worth timing: rows, inner size, columns, type.
local TIMED = { { 4096, 4096, 4096, 'bf16' }, { 2048, 2048, 2048, 'f32' },
  { 512, 4096, 1024, 'bf16' }, { 64, 16384, 64, 'f32' }, { 128, 8192, 256, 'f16' },
  { 8192, 512, 128, 'bf16' } }

local function timed_product(s)
  local m, k, n, dtype = unpack(s)
  local o = { device = DEVICE, dtype = dtype }
  return lt.product { m = m, k = k, n = n, factor = dtype, result = dtype,
    a = ridge.ones(m, k, o), b = ridge.ones(k, n, o), c = ridge.zeros(m, n, o) }
end

local function name_of(s) return ('%dx%dx%d %s'):format(unpack(s)) end

-- Microseconds of the fastest that the heuristic names, and of its first.
local function best(p, ask)
  local least, first
  for _, algo in ipairs(p:ask(ask)) do
    local us = p:time(algo.algo, 5)
    if us then
      first = first or us
      least = math.min(least or us, us)
    end
  end
  if not least then failed 'no algorithm runs' end
  return least, first
end

probe('align-16', function()
  belief.times()
  local said, most = {}, 0
  for _, s in ipairs(TIMED) do
    local p = timed_product(s)
    local sixteen, full = best(p, { aligned = 16 }), best(p, { aligned = 256 })
    local ratio = sixteen / full
    said[#said + 1], most = ('%s %.2f'):format(name_of(s), ratio), math.max(most, ratio)
  end
  local text = 'time with 16 / with 256: ' .. table.concat(said, ', ')
  if most > 1.05 then look('%s', text) end
  return text
end)

probe('scheme-mask', function()
  local seen, n = {}, 0
  local shapes = tiny and belief.SHAPES
    or { { 64, 16384, 64 }, { 128, 8192, 128 }, { 512, 512, 512 } }
  for _, s in ipairs(belief.over(shapes, belief.TYPES)) do
    for _, mask in ipairs { 0, lt.INPLACE, lt.IN_SUMS, lt.INPLACE + lt.IN_SUMS, 7 } do
      local list = sample(s).product:ask { schemes = mask, most = 16 }
      if #list == 0 then failed('%s: no algorithm with the mask %d', belief.name_of(s), mask) end
      for _, algo in ipairs(list) do
        if bit.band(algo.scheme, bit.bnot(mask)) ~= 0 then
          failed('%s: the mask %d, and algorithm %d adds up by scheme %d', belief.name_of(s), mask,
            algo.id, algo.scheme)
        end
        seen[algo.scheme], n = true, n + 1
      end
    end
  end
  local schemes = {}
  for scheme in pairs(seen) do schemes[#schemes + 1] = scheme end
  table.sort(schemes)
  if #schemes < 2 then missing('all of %d algorithms are of scheme %d', n, schemes[1]) end
  return ('%d algorithms, schemes %s'):format(n, table.concat(schemes, ' '))
end)

-- Bits, of numbers whose sums depend on their order.
probe('same-bits', function()
  local runs = tiny and 3 or 1000
  local shapes = tiny and { { 16, 24, 16 } } or { { 64, 8192, 64 }, { 256, 1024, 384 } }
  modes.deterministic = 1
  local n = 0
  for _, s in ipairs(shapes) do
    for _, dtype in ipairs { 'f32', 'bf16' } do
      local o = { device = DEVICE, dtype = dtype }
      local x, y = ridge.randn(s[1], s[2], o), ridge.randn(s[2], s[3], o)
      local first = by_library('matmul', function() return x:matmul(y) end)
      for i = 2, runs do
        local again = x:matmul(y)
        if not again:equal(first) then
          failed('%s %dx%dx%d by ridge: run %d has other bits', dtype, s[1], s[2], s[3], i)
        end
        again:release()
      end
      -- each algorithm that ridge could have been given
      local c = ridge.zeros(s[1], s[3], o)
      local p = lt.product { m = s[1], k = s[2], n = s[3], factor = dtype, result = dtype, a = x,
        b = y, c = c }
      for _, algo in ipairs(p:ask { schemes = lt.IN_SUMS }) do
        local kept
        for i = 1, math.min(runs, 100) do
          lt.wait()
          if p:run(algo.algo) ~= 0 then break end
          lt.wait()
          kept = kept or c:clone()
          if not kept:equal(c) then
            failed('%s %dx%dx%d, algorithm %d: run %d has other bits', dtype, s[1], s[2], s[3],
              algo.id, i)
          end
        end
        n = n + 1
      end
    end
  end
  return ('%d runs by ridge, %d algorithms'):format(runs * 2 * #shapes, n)
end)

probe('heuristic', function()
  local shapes = tiny and { { 16, 20, 16, 'f32' }, { 16, 32, 24, 'bf16' } } or TIMED
  local said, least, slow = {}, math.huge, false
  for _, s in ipairs(shapes) do
    local p = timed_product(s)
    local list = p:ask()
    least = math.min(least, #list)
    if #list == 0 then failed('%s: no algorithm', name_of(s)) end
    said[#said + 1] = ('%s: %d'):format(name_of(s), #list)
    if not belief.simulated then
      local fastest, first = best(p)
      slow = slow or first > 1.2 * fastest
      said[#said] = said[#said] .. (', first / fastest %.2f'):format(first / fastest)
    end
  end
  local text = table.concat(said, '; ')
  if least < 2 or slow then look('%s', text) end
  return text
end)

-- -- Other processes ------------------------------------------------------------------------------

local function output(command)
  local pipe = assert(io.popen(command .. ' 2>&1; echo "status $?"'))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

local function child(what, environment)
  local self = output('readlink /proc/$PPID/exe'):match '^[^\n]*'
  return output(('env %s %s %sbeliefs.lua --child %s%s'):format(environment or '', self,
    belief.here, what, tiny and ' --tiny' or ''))
end

local function small() -- as exact as all samples, by ridge
  for i = 1, 3 do
    local x = ridge.randint(-2, 3, 16, 20 * i):to 'f32'
    local y = ridge.randint(-2, 3, 20 * i, 24):to 'f32'
    local got = by_library('matmul', function() return x:to(DEVICE):matmul(y:to(DEVICE)) end)
    if not got:to 'cpu':equal(x:matmul(y)) then
      print('wrong')
      return
    end
  end
  print('right')
end
function belief.children.file() small() end

-- Algorithms that were never given for a product: refused, or right all the same.
function belief.children.foreign()
  local x = sample { m = 16, k = 24, n = 8, factor = 'f64' }
  local list = sample { m = 16, k = 24, n = 8, factor = 'bf16' }.product:ask()
  for _, word in ipairs { '0', '0xffffffffffffffffULL', '0xffULL' } do
    local algo = ffi.new 'uint64_t[8]'
    for i = 0, 7 do algo[i] = loadstring('return ' .. word)() end
    list[#list + 1] = { algo = algo }
  end
  local refused = 0
  for _, algo in ipairs(list) do
    if not x.product:agrees(algo.algo) then
      refused = refused + 1
    else
      local wrong = differs(x, algo)
      if wrong then print('taken and wrong: ' .. wrong) end
    end
  end
  print(('%d of %d refused'):format(refused, #list))
end

probe('algorithm-file', function()
  local folder = os.tmpname()
  os.remove(folder)
  local environment = 'XDG_CACHE_HOME=' .. folder
  local path = folder .. '/ridge/cublaslt.txt'
  local function inode() return output('stat -c %i ' .. path) end
  local one = child('file', environment)
  local kept = inode()
  local two = child('file', environment)
  local after = inode()
  local lines = output('wc -l <' .. path):match '%d+'
  local foreign = child 'foreign'
  os.execute('rm -rf ' .. folder)
  if one ~= 'right\nstatus 0\n' or two ~= one then failed('processes say %s and %s', one, two) end
  if not kept:find '^%d+\n' then missing('the first process wrote no file: %s', kept) end
  if kept ~= after then
    failed 'the second process found algorithms again: the file\'s were refused or did not run'
  end
  if not foreign:find '^%d+ of %d+ refused\nstatus 0\n$' or foreign:find '^0 of' then
    failed('algorithms of other products: %s', foreign)
  end
  return ('%d algorithms kept; %s'):format(lines - 1, foreign:match '^[^\n]*')
end)

-- -- Capture, threads -----------------------------------------------------------------------------

-- The graph is made at the first replay, of what was chosen without timing, and keeps the modes it
-- was captured in.
probe('capture', function()
  local n = 0
  for i, s in ipairs(tiny and { { 12, 20, 8 }, { 16, 40, 24 } }
    or { { 192, 320, 448 }, { 96, 8192, 96 }, { 1024, 704, 1088 } }) do
    for _, dtype in ipairs { 'f32', 'bf16' } do
      local x = ridge.randint(-2, 3, s[1], s[2]):to(dtype)
      local y = ridge.randint(-2, 3, s[2], s[3]):to(dtype)
      local there, other = x:to(DEVICE), y:to(DEVICE)
      local z
      modes.autotune = 0
      modes.deterministic = i % 2
      local plan = ridge.capture(function() z = there:matmul(other) end)
      modes.autotune, modes.deterministic = 1, 0
      plan:run(2)
      local facts = plan:facts()
      if not facts.device_graph then failed('%s: no graph: %s', dtype, facts.why or '?') end
      -- the workspace is used by others in between, and the factors are other ones
      local big = ridge.ones(64, tiny and 64 or 16384, { device = DEVICE })
      by_library('matmul', function() return big:matmul(big:t()) end)
      there:copy_((x * -1):to(DEVICE))
      z:fill_(0 / 0)
      plan:run(3)
      local wanted = (x:to 'f64' * -1):matmul(y:to 'f64'):to(dtype)
      if not z:to 'cpu':equal(wanted) then failed('%s: a replay gives something else', dtype) end
      n = n + 1
    end
  end
  return ('%d products in graphs'):format(n)
end)

-- Lua of a second thread: cublasLtMatmul, its arguments and the number of runs come as addresses.
local THREAD = [[
local ffi = require 'ffi'
local f = ffi.cast('int (*)(void *, void *, void *, void *, void *, void *, void *, void *, void *,'
  .. ' void *, void *, void *, void *, void *, size_t, void *)', ffi.cast('uintptr_t', %s))
local a = ffi.cast('uintptr_t *', ffi.cast('uintptr_t', %s))
local failures = ffi.cast('int *', ffi.cast('uintptr_t', %s))
jit.off()
run = ffi.cast('void *(*)(void *)', function(p)
  local w = {}
  for i = 0, 15 do w[i + 1] = ffi.cast('void *', a[i]) end
  for _ = 1, %d do
    local status = f(w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12],
      w[13], w[14], ffi.cast('size_t', a[14]), w[16])
    if status ~= 0 then failures[0] = failures[0] + 1 end
  end
  return p
end)
return tonumber(ffi.cast('uintptr_t', ffi.cast('void *', run)))
]]

local function address(x) return ffi.cast('uintptr_t', ffi.cast('const void *', x)) end

-- Run a product n times in a thread of its own, while f is called; how often it failed.
local function beside(p, algo, n, f)
  local words, failures = ffi.new 'uintptr_t[16]', ffi.new 'int[1]'
  for i, word in ipairs { p:words(algo) } do words[i - 1] = i == 15 and word or address(word) end
  local L = ffi.C.luaL_newstate()
  ffi.C.luaL_openlibs(L)
  local code = THREAD:format(address(lt.library().cublasLtMatmul), address(words),
    address(failures), n)
  if ffi.C.luaL_loadstring(L, code) ~= 0 or ffi.C.lua_pcall(L, 0, 1, 0) ~= 0 then
    error(ffi.string(ffi.C.lua_tolstring(L, -1, nil)))
  end
  local entry = ffi.cast('void *(*)(void *)', ffi.cast('uintptr_t', ffi.C.lua_tonumber(L, -1)))
  local thread = ffi.new 'unsigned long[1]'
  if ffi.C.pthread_create(thread, nil, entry, nil) ~= 0 then error 'no second thread' end
  local ok, why = pcall(f)
  ffi.C.pthread_join(thread[0], nil)
  ffi.C.lua_close(L)
  if not ok then error(why, 0) end
  return failures[0]
end

probe('one-handle', function()
  local runs = tiny and 20 or 500
  local m, k, n = unpack(tiny and { 16, 20, 24 } or { 256, 512, 320 })
  local total = 0
  for _, dtype in ipairs { 'f32', 'bf16' } do
    local one = sample { m = m, k = k, n = n, factor = dtype }
    local two = sample { m = n, k = k, n = m, factor = dtype }
    local room = ridge.empty(lt.WORKSPACE / 4, { device = DEVICE })
    two.product.at = lt.address(room)
    local mine, other = one.product:ask(), two.product:ask()
    local function ran(x, list)
      for _, algo in ipairs(list) do
        if select(2, differs(x, algo)) == nil then return algo.algo end
      end
      failed 'no algorithm runs'
    end
    local a, b = ran(one, mine), ran(two, other)
    one.c:fill_(0 / 0)
    two.c:fill_(0 / 0)
    lt.wait()
    local bad = 0
    local there = beside(two.product, b, runs, function()
      for _ = 1, runs do
        if one.product:run(a) ~= 0 then bad = bad + 1 end
      end
    end)
    lt.wait()
    if bad + there > 0 then failed('%d and %d of %d runs were refused', bad, there, runs) end
    for i, x in ipairs { one, two } do
      if not x.c:to 'cpu':to 'f64':equal(x.wanted:reshape(x.c.count)) then
        failed('%s: the result of thread %d is wrong', dtype, i)
      end
    end
    total = total + 2 * runs
  end
  return ('%d products of two threads by one handle'):format(total)
end)

-- -- Times ----------------------------------------------------------------------------------------

probe('workspace-32', function()
  belief.times()
  local said, most = {}, 0
  for _, s in ipairs(TIMED) do
    local p = timed_product(s)
    local some, much = best(p, { room = 32 * lt.MB }), best(p, { room = 128 * lt.MB })
    said[#said + 1], most = ('%s %.2f'):format(name_of(s), some / much), math.max(most, some / much)
  end
  local text = 'time with 32 MiB / with 128: ' .. table.concat(said, ', ')
  if most > 1.05 then look('%s', text) end
  return text
end)

-- Shapes that nothing before has used, so that their kernels may not have been loaded.
probe('lazy-kernels', function()
  belief.times()
  local said, slow = {}, false
  for _, s in ipairs { { 1536, 640, 896, 'f16' }, { 72, 12000, 200, 'bf16' },
    { 3000, 96, 40, 'f32' } } do
    local p = timed_product(s)
    for i, algo in ipairs(p:ask { most = 3 }) do
      local us = {}
      for run = 1, 12 do
        lt.wait()
        local before = tonumber(C.rg_clock_ns())
        if p:run(algo.algo) ~= 0 then break end
        lt.wait()
        us[run] = (tonumber(C.rg_clock_ns()) - before) / 1e3
      end
      if us[12] then
        local first, second = us[1], us[2]
        table.sort(us)
        local median = us[6]
        slow = slow or second > 2 * median
        said[#said + 1] = ('%s %d: %.0f, %.0f, then %.0f us'):format(name_of(s), i, first, second,
          median)
      end
    end
  end
  local text = table.concat(said, '; ')
  if slow then look('%s', text) end
  return text
end)
