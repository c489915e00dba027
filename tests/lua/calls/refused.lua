-- SPDX-License-Identifier: MIT
-- What every public function and method says of a call that it refuses: ./ridge refused.lua OUT, in
-- a folder with fit.db (measured.lua). Each call of fitting.lua is made with one argument after the
-- other replaced by what does not fit, with one left out at the end, and with one too many.

local ridge = require 'ridge'
local here = arg[0]:match '^(.*/)'
local out = arg[1]
rawset(_G, 'arg', { [0] = arg[0] }) -- ridge.args would end the process over the others
local fitting = dofile(here .. 'fitting.lua')
local targets = dofile(here .. 'targets.lua')

-- Draws nothing: the first of each list, sizes that differ, and no accident.
local SIZES = { 3, 4, 5, 2 }
local function calm()
  local taken = 0
  return { pick = function() return 1 end, often = function() return false end,
    one = function(_, list)
      taken = taken + 1
      return SIZES[taken] or list[1]
    end }
end

local released = ridge.ones(2)
released:release()
local WRONG = { { 'nil', nil }, { '-1', -1 }, { '0.5', 0.5 }, { "'zork'", 'zork' },
  { '{ zork = 1 }', { zork = 1 } }, { 'a released tensor', released } }

-- How errors show these: one sentence stands for all values that it is said of.
local SHOWN = { 'nil', '%-1', '0%.5', "'zork'", 'a table', 'a cdata' }

-- What a call comes to, without what differs from run to run.
local function outcome(f, given, n)
  local result = { pcall(f, unpack(given, 1, n)) }
  if result[1] then return 'is taken' end
  local e = result[2]
  if type(e) ~= 'table' then return 'is handed on' end -- to a function of the test's own
  local text = tostring(e.message):match '^[^\n]*'
  for _, shown in ipairs(SHOWN) do
    text = text:gsub('got ' .. shown .. "%f[^%w']", 'got it')
      :gsub(': ' .. shown .. ' is', ': it is')
  end
  text = text:gsub('%f[%w_]0x%x+', 'ADDRESS'):gsub('/tmp/[%w_/.-]*', 'PATH')
  return ('%s (%s)'):format(text, e.code)
end

local file = assert(io.open(out, 'wb'))

-- What is said of an argument, with the values that it is said of, in their order.
local function asked_of(name, i, n)
  local order, said = {}, {}
  for _, wrong in ipairs(WRONG) do
    local f, given = fitting.call(calm(), name)
    given[i] = wrong[2]
    local text = outcome(f, given, math.max(i, n))
    if not said[text] then
      said[text] = {}
      order[#order + 1] = text
    end
    table.insert(said[text], wrong[1])
  end
  for _, text in ipairs(order) do
    local values = #said[text] == #WRONG and 'anything' or table.concat(said[text], ', ')
    if text ~= 'is taken' then file:write(('%d = %s\n  %s\n'):format(i, values, text)) end
  end
end

local function asked(name)
  local ok, _, _, n = pcall(fitting.call, calm(), name)
  if not ok then return end
  file:write('# ', name, '\n')
  for i = (name:find ':' or name:find ' ') and 2 or 1, n + 1 do asked_of(name, i, n) end
end

-- What takes long even where it is refused. Methods of a tensor, most of which refuse alike, are
-- left to tests/op and tests/lua/tensor.
local LEFT_OUT = { ['ridge.quant.compare'] = true, ['ridge.smaller'] = true,
  ['ridge.memory.stages'] = true, ['ridge.replot'] = true, ['ridge.prune.compact'] = true,
  ['ridge.onnx.export'] = true, ['graph:at'] = true, ['ridge.show'] = true,
  -- what these say depends on how busy the machine was that timed the points
  ['ridge.best'] = true, ['ridge.top'] = true, ['ridge.compare'] = true, ['ridge.report'] = true,
  ['sweep:compare'] = true, ['sweep:plot'] = true, ['sweep:results'] = true,
  ['sweep:samples'] = true, ['sweep:ceilings'] = true }

for _, name in ipairs(fitting.names) do
  if not targets.SLOW[name] and not fitting.WHOLE[name] and not LEFT_OUT[name]
    and not name:find '^tensor:' then
    asked(name)
    collectgarbage()
  end
end
file:close()
print 'DONE'
