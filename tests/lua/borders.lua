-- SPDX-License-Identifier: MIT
-- borders: calls made on the CPU and on the simulated GPU from the same numbers, and what the
-- device launched for them as approved; for borders_spec, borders_product_spec and
-- borders_rows_spec.

local ffi = require 'ffi'
local ridge = require 'ridge'
local approved = dofile 'tests/lua/approved.lua'
local simulated = dofile 'tests/lua/simulated.lua'

local M = {}

local there = simulated.open()
ffi.C.setenv('RIDGE_CUDNN', 'none', 1)
ffi.C.setenv('XDG_CACHE_HOME', '', 1)
ffi.cdef 'size_t rgsim_launched(char *text, size_t room);'

local GPU = 'sim:0'
M.PACK = { f32 = 4, f64 = 2, f16 = 8, bf16 = 8 } -- elements of 16 bytes
M.FLOATS = { 'f32', 'bf16', 'f16', 'f64' }
local NEAR = { f32 = 2e-4, f64 = 1e-10, f16 = 8e-3, bf16 = 6e-2 }
local ROOM = 65536
local buffer = ffi.new('char[?]', ROOM)

local generator
--- Normal random numbers.
function M.numbers(dtype, ...)
  local shape = { ... }
  shape[#shape + 1] = { generator = generator }
  return ridge.randn(unpack(shape)):to(dtype)
end

-- The kernels since this was asked last, each once and how often: name, blocks, threads and bytes
-- of shared memory.
local function launched(plugin)
  assert(plugin.rgsim_launched(buffer, ROOM) < ROOM)
  local list, times = {}, {}
  for grid, block, bytes, name in ffi.string(buffer):gmatch
    '([^\t\n]*)\t([^\t\n]*)\t([^\t\n]*)\t([^\n]*)' do
    local text = ('%s over %s of %s%s'):format(name:gsub('%b()$', ''):gsub('^void ', ''),
      (grid:gsub(' 1 1$', ''):gsub(' 1$', '')), (block:gsub(' 1 1$', '')),
      bytes == '0' and '' or ' with ' .. bytes)
    if not times[text] then list[#list + 1] = text end
    times[text] = (times[text] or 0) + 1
  end
  for i, text in ipairs(list) do
    list[i] = times[text] > 1 and text .. ', ' .. times[text] .. ' times' or text
  end
  return table.concat(list, '; ')
end

-- Copies: a tensor that needs a gradient says so of its memory.
local function copies(list, device)
  local out = {}
  for i, x in ipairs(list) do out[i] = x:clone():to(device) end
  return out
end

local function close(got, wanted, what, near)
  got = got:to 'cpu'
  local a, b = got:describe(), wanted:describe()
  if a ~= b then error(('%s: %s, wanted %s'):format(what, a, b), 0) end
  local same
  if M.PACK[got.dtype] then
    near = near or NEAR[got.dtype]
    same = got:to('f64'):allclose(wanted:to 'f64', near, near)
  else
    same = got:equal(wanted)
  end
  if not same then error(what .. ' is another one than on the CPU', 0) end
end

--- f(inputs...) gives results on the CPU and on the device, from the same numbers; what the device
--- launched for it comes as a line of `out`.
function M.try(out, what, inputs, f, near)
  local plugin = ffi.load 'build/libridge_gpusim.so'
  local on_cpu = copies(inputs, 'cpu')
  ridge.seed(3)
  local wanted = { f(unpack(on_cpu)) }
  local told
  -- blocks in their order, and in the other one: what writes into the part of a later block shows
  for _, order in ipairs { 'fwd', 'rev' } do
    ffi.C.setenv('RG_SIM_ORDER', order, 1)
    ridge.seed(3)
    local given = copies(inputs, GPU)
    launched(plugin)
    local got = { f(unpack(given)) }
    for i, x in ipairs(wanted) do
      close(got[i], x, ('%s, order %s: result %d'):format(what, order, i), near)
    end
    told = told or launched(plugin)
    for _, list in ipairs { given, got } do
      for _, x in ipairs(list) do x:release() end
    end
  end
  out[#out + 1] = what .. ': ' .. told
end

--- A result and the gradient of its input, the first of the list.
function M.both(f)
  return function(x, dy, ...)
    x = x:detach():requires_grad_()
    local y = f(x, ...)
    y:backward(dy)
    return y:detach(), x.grad
  end
end

--- Compare the lines of f(out) with those that were approved; false where nothing is simulated.
function M.compare(name, f)
  if not there then return false end
  generator = ridge.generator(11)
  M.generator = generator
  local out = {}
  f(out)
  approved.check('gpu/borders_' .. name:gsub(' ', '_'), table.concat(out, '\n'))
  return true
end

return M
