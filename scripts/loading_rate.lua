-- SPDX-License-Identifier: MIT
-- What files of tensors take: opening one of 2 GB lazily, 100,000 entries, saving and loading 160
-- MB and 200 small tensors. Milliseconds, the least and the median of several; elapsed for opening,
-- of the processor for the rest. Files are made in the folder that is given.
--
--   ./ridge scripts/loading_rate.lua [/dev/shm]

local ffi = require 'ffi'
local ridge = require 'ridge'

ffi.cdef [[
struct loading_time { long s, ns; };
int loading_clock(int, struct loading_time *) __asm__("clock_gettime");
]]

local CPU = 2 -- CLOCK_PROCESS_CPUTIME_ID
local folder = arg[1] or '/dev/shm'
local path = folder .. '/ridge_loading_rate.safetensors'

local time = ffi.new 'struct loading_time'
local function cpu()
  ffi.C.loading_clock(CPU, time)
  return tonumber(time.s) + tonumber(time.ns) / 1e9
end

local function measure(name, clock, n, f)
  local took = {}
  for i = 1, n do
    local before = clock()
    f()
    took[i] = 1e3 * (clock() - before)
    collectgarbage()
  end
  table.sort(took)
  print(('%-42s %9.3f %9.3f'):format(name, took[1], took[math.ceil(n / 2)]))
end

local function length(n)
  local bytes = {}
  for i = 1, 8 do
    bytes[i] = string.char(n % 256)
    n = math.floor(n / 256)
  end
  return table.concat(bytes)
end

-- A file with a header, and as many bytes behind it that are a hole.
local function put(header, bytes)
  header = header .. (' '):rep(-#header % 8)
  local f = assert(io.open(path, 'wb'))
  f:write(length(#header), header)
  f:seek('cur', bytes - 1)
  f:write '\0'
  f:close()
end

print(('%-42s %9s %9s'):format('ms', 'least', 'median'))

local n = 2 ^ 31
put(('{"a":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}'):format(n / 4, n), n)
local lazy = pcall(ridge.load, path, { lazy = true })
if lazy then
  measure('2 GB, opened lazily', ridge.clock, 50, function() ridge.load(path, { lazy = true }) end)
  measure('2 GB, mapped', ridge.clock, 50, function() ridge.load(path, { map = true }) end)
end

local entries = {}
for i = 1, 1e5 do
  entries[i] = ('"layer.%d.weight":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}'):format(i,
    i - 1, i)
end
put('{' .. table.concat(entries, ',') .. '}', 1e5)
measure('100,000 tensors of a byte, loaded', cpu, 5, function() ridge.load(path) end)

local large, small = {}, {}
for i = 1, 40 do large['w' .. i] = ridge.randn(1024, 1024) end
for i = 1, 200 do small['w' .. i] = ridge.ones(8) end
for name, x in pairs { ['160 MB'] = large, ['200 small tensors'] = small } do
  measure(name .. ', saved', cpu, 9, function() ridge.save(path, x) end)
  measure(name .. ', loaded', cpu, 9, function() ridge.load(path) end)
end
os.remove(path)
