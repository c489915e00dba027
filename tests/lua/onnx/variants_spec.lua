-- SPDX-License-Identifier: MIT
--- The operators of cases.lua over other inputs than those whose results are written by hand: of
--- other types, without rows, of one more axis, without the last of them or an attribute, by other
--- versions. What each gives or refuses is approved.

jit.off(true, true) -- compiled loops that copy go wrong in LuaJIT of Debian 12 (ridge.options)

local approved = dofile 'tests/lua/approved.lua'
local cases = dofile 'tests/lua/onnx/cases.lua'
local ridge = require 'ridge'

-- Four digits of each number; -0 is 0.
local function text(x)
  local list = { x:describe() }
  for _, value in ipairs(x.count > 0 and x:reshape(-1):tolist() or {}) do
    list[#list + 1] = type(value) == 'boolean' and (value and '1' or '0')
      or value ~= value and 'nan' or ('%.4g'):format(value + 0)
  end
  return table.concat(list, ' ')
end

local function told(op, version, attributes, inputs, outputs)
  local ok, got = pcall(cases.run, op, version, attributes, inputs, outputs)
  if not ok then return (tostring(got):gsub('^[^:]+:%d+: ', '')) end
  for k, x in ipairs(got) do got[k] = text(x) end
  return table.concat(got, '; ')
end

-- The inputs with each that fits changed.
local function mapped(inputs, change)
  local out = { n = inputs.n or #inputs }
  for i = 1, out.n do out[i] = inputs[i] and change(inputs[i], i) or inputs[i] end
  return out
end

local function copy(list)
  local out = {}
  for name, value in pairs(list) do out[name] = value end
  return out
end

local function typed(name)
  return function(x) return x.dtype == 'f32' and x:to(name) end
end

local CHANGES = {
  { 'f64', typed 'f64' }, { 'i32', typed 'i32' }, { 'u8', typed 'u8' },
  { 'negative', function(x) return x.dtype == 'f32' and x:neg() end },
  { 'no rows', function(x, i) return i == 1 and x.ndim > 0 and x:narrow(1, 1, 0) end },
  { 'an axis more', function(x, i) return i == 1 and x:reshape { 1, unpack(x.shape) } end },
  { 'one number', function(x, i)
    return i == 1 and x.count > 0 and x:reshape(-1):narrow(1, 1, 1)
  end },
}

describe('operators of ONNX over other inputs', function()
  local ops, by = {}, {}
  for k, case in ipairs(cases.CASES) do
    local op = case[1]
    if not op:find 'Random' and op ~= 'Bernoulli' and op ~= 'Multinomial' then
      if not by[op] then
        by[op] = {}
        ops[#ops + 1] = op
      end
      table.insert(by[op], { k, case })
    end
  end
  table.sort(ops)

  local function lines_of(k, case, out)
    local op, version, given, inputs, n = case[1], case[2], case[3], case[4], #case - 4
    local function put(what, ...)
      out[#out + 1] = ('%s %d, %s: %s'):format(op, k, what, told(...))
    end
    for _, change in ipairs(CHANGES) do
      put(change[1], op, version, given, mapped(inputs, change[2]), n)
    end
    local fewer = mapped(inputs, function(x) return x end)
    if fewer.n > 1 then
      fewer[fewer.n], fewer.n = nil, fewer.n - 1
      put('without the last', op, version, given, fewer, n)
    end
    local names = {}
    for name in pairs(given) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      local changed = copy(given)
      changed[name] = nil
      put('without ' .. name, op, version, changed, inputs, n)
      local value = given[name]
      if type(value) == 'number' then
        for _, by_ in ipairs { -1, 1 } do
          changed[name] = value + by_
          put(('%s %d'):format(name, value + by_), op, version, changed, inputs, n)
        end
      elseif type(value) == 'table' and type(value[1]) == 'number' then
        changed[name] = copy(value)
        changed[name][1] = value[1] + 1
        put(name .. ' one more', op, version, changed, inputs, n)
        changed[name] = { unpack(value, 1, #value - 1) }
        put(name .. ' fewer', op, version, changed, inputs, n)
      elseif type(value) == 'string' then
        changed[name] = 'other'
        put(name .. ' other', op, version, changed, inputs, n)
      end
    end
    for _, other in ipairs { 7, 10, 11, 12, 13, 18, 23 } do
      if other ~= version then put('version ' .. other, op, other, given, inputs, n) end
    end
  end

  for first = 1, #ops, 12 do
    local last = math.min(#ops, first + 11)
    it(('%s to %s are what was approved'):format(ops[first], ops[last]), function()
      ridge.seed(5)
      local out = {}
      for i = first, last do
        for _, each in ipairs(by[ops[i]]) do lines_of(each[1], each[2], out) end
      end
      approved.check('onnx/variants-' .. ops[first]:lower(), table.concat(out, '\n'))
    end)
  end
end)
