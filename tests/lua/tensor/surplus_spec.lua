-- SPDX-License-Identifier: MIT
-- What a method does not take is refused where it was written: one argument too many, and 0 for
-- false, which Lua takes for true.
local ridge = require 'ridge'
local annotations = require 'ridge.repl.annotations'
local method = require 'ridge.tensor.method'
local schema = require 'ridge.tensor.schema'

-- How many arguments a method takes behind its tensor, by the text of its help; nil: any number.
local function takes(entry, and_tensor)
  if entry.parameters:find('...', 1, true) then return nil end
  return select(2, entry.parameters:gsub('[^,%s]+', '')) - (and_tensor and 1 or 0)
end

describe('one argument too many', function()
  local one, entries = ridge.ones(2, 2), {}
  local function method_of(name)
    local found, value = pcall(function() return one[name] end)
    return found and type(value) == 'function' and value or nil
  end
  for _, entry in ipairs(method.entries()) do entries[entry.name] = takes(entry) end
  for _, name in ipairs { 'ops', 'view', 'grad', 'image', 'choose',
    'composed', 'init' } do
    local file = assert(io.open(('lua/ridge/tensor/%s.lua'):format(name)))
    for _, entry in ipairs(annotations.parse(file:read '*a')) do
      if entry.owner == 'methods' and method_of(entry.name) then
        entries[entry.name] = takes(entry, true)
      end
    end
    file:close()
  end

  it('is an error of every method that takes so many', function()
    local tried = 0
    for name, n in pairs(entries) do
      local f = assert(method_of(name), name)
      local args = {}
      for i = 1, n do args[i] = 'nothing' end
      args[n + 1] = 7
      local ok, err = pcall(f, one, unpack(args, 1, n + 1))
      assert.is_false(ok, name)
      assert.matches(name .. ': 7 is one argument too many', tostring(err.message or err), 1, true)
      tried = tried + 1
    end
    assert.is_true(tried > 70, tried)
  end)

  it('is told from the arguments that the help lists, each by its name', function()
    local drawn = 0
    for _, entry in ipairs(method.entries()) do
      local names = {}
      for i, param in ipairs(entry.params) do names[i] = param.name end
      local taken = {}
      for name in entry.parameters:gmatch '[^,%s]+' do taken[#taken + 1] = name end
      assert.same(taken, names, entry.name)
      if names[#names] == 'generator' then drawn = drawn + 1 end
    end
    assert.is_true(drawn > 0)
  end)

  it('names what is taken, at the line', function()
    local ok, err = pcall(function()
      local y = ridge.ones(3):softmax(1, 2)
      return y
    end)
    assert.is_false(ok)
    assert.matches('softmax: 2 is one argument too many; it takes axis = -1', tostring(err), 1,
      true)
    assert.matches('surplus_spec.lua:%d+', tostring(err))
  end)

  it('is none where nothing more is given', function()
    local x = ridge.ones(3):requires_grad_()
    local y = (-x + 1):exp():sum():detach()
    assert.near(3, y:item(), 1e-6)
    assert.is_true((pcall(x.add, x, x, nil)))
    for _, name in ipairs { 'exp', 'exp_', 'add', 'add_' } do
      assert.is_false(pcall(y[name], y, name:find 'add' and 1 or 2, 2), name)
    end
  end)
end)

describe('a flag', function()
  it('is true, false or nothing', function()
    local x = ridge.ones(2, 2)
    local layer = ridge.nn.Linear(2, 2)
    local net = ridge.nn.Sequential(layer)
    for name, f in pairs {
      reverse = function(v) return x:cumsum(1, v) end,
      keep = function(v) return x:sum(1, v) end,
      requires = function(v) return x:requires_grad_(v) end,
      param = function(v) return x:set_param(v) end,
      train = function(v) return layer:train(v) end,
      net = function(v) return net:train(v) end,
      freeze = function(v) return net:freeze(v) end,
      recompute = function(v) return layer:recompute(v) end,
    } do
      for _, v in ipairs { 0, 1, 'false', {} } do
        local ok, err = pcall(f, v)
        assert.is_false(ok, name)
        assert.matches('is true or false, got', tostring(err))
      end
      f(true)
      f(false)
      f(nil)
    end
  end)

  it('is checked in every record that has one', function()
    local tried = 0
    for _, record in ipairs(schema.records()) do
      for _, arg in ipairs(record.method and schema.named(record) or {}) do
        if arg.kind == 'flag' then
          assert.matches(('flag%%(%s, NAME'):format(arg.name), method.text(record))
          tried = tried + 1
        end
      end
    end
    assert.is_true(tried > 3)
  end)
end)

it('an axis, a position or a bound that C cannot hold is said as it was typed', function()
  local x = ridge.ones(3, 2)
  local function words(f, ...) return tostring(select(2, pcall(f, ...))) end
  for text, n in pairs { ['1e+300'] = 1e300, ['1e+20'] = 99999999999999999999, ['inf'] = 1 / 0,
                         ['4294967297'] = 2 ^ 32 + 1 } do
    for _, name in ipairs { 'sum', 'softmax', 'unsqueeze', 'cumsum', 'argmax', 'size' } do
      assert.equal(name .. ': there is no axis ' .. text, words(x[name], x, n):match(
        name .. ': there is no axis [^ ]+'))
    end
    assert.matches('position ' .. text .. ' is outside axis 1', words(function() return x[n] end),
      1, true)
    assert.matches('set_priority: .* got ' .. text:gsub('%p', '%%%0'),
      words(ridge.backend.set_priority, n))
  end
  for _, n in ipairs { 1e300, -1e300, 0 / 0, 1 / 0, 0.5 } do
    for _, said in ipairs { words(ridge.randint, 0, n, 2), words(ridge.randint, n, 9, 2) } do
      assert.matches('randint: low and high are whole numbers', said, 1, true)
    end
  end
end)
