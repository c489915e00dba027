-- SPDX-License-Identifier: MIT
-- Names of parameters in graphs: those of their module, and each one's own where several modules
-- that are parts of no other one have the same.
local ridge = require 'ridge'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

-- Names of what was there before, in the order of the graph; no name is there twice.
local function names(graph)
  local list, seen = {}, {}
  for _, value in ipairs(graph:values()) do
    if value.name and value.kind ~= 'intermediate' then
      assert.is_nil(seen[value.name], 'twice: ' .. value.name)
      seen[value.name] = true
      list[#list + 1] = value.name
    end
  end
  return table.concat(list, ' ')
end

local function linear() return nn.Linear(3, 3) end

-- Modules that come as arguments: the function has no names for them.
local function chain(x, ...)
  for i = 1, select('#', ...) do x = select(i, ...)(x) end
  return x
end

describe('parameters in a graph', function()
  local x = ridge.ones(2, 3)

  it('have the names of their module where there is one', function()
    assert.equal('input weight bias', names(ridge.graph(linear(), x)))
    local net = nn.Sequential(linear(), nn.ReLU(), linear())
    assert.equal('input 1.weight 1.bias 3.weight 3.bias', names(ridge.graph(net, x)))
    assert.equal('input 1.weight 1.bias 3.weight 3.bias',
      names(ridge.graph(function(v) return net(v) end, x)))
  end)

  it('have them among several modules whose names are others', function()
    local net, head = nn.Sequential(linear()), linear()
    assert.equal('input 1.weight 1.bias weight bias',
      names(ridge.graph(function(v) return head(net(v)) end, x)))
  end)

  it('are those of the whole where a part of it was called first', function()
    local net = nn.Sequential(linear(), nn.ReLU(), linear())
    assert.equal('input 1.weight 1.bias 3.weight 3.bias',
      names(ridge.graph(function(v) return net[1](v) + net(v) end, x)))
  end)

  it('are told apart as the function calls their modules', function()
    local a, b = linear(), linear()
    assert.equal('input a.weight a.bias b.weight b.bias',
      names(ridge.graph(function(v) return b(a(v)) end, x)))
    assert.equal('input b.weight b.bias a.weight a.bias', -- in the order of the calls
      names(ridge.graph(function(v) return a(b(v)) end, x)))
    assert.equal('input.2 a.weight a.bias b.weight b.bias',
      names(ridge.graph(ridge.inference, function(v) return b(a(v)) end, x)))
  end)

  it('are told apart by fields of what it reads', function()
    local stages = { linear(), linear() }
    local function each(v)
      for _, stage in ipairs(stages) do v = stage(v) end
      return v
    end
    assert.equal('input stages.1.weight stages.1.bias stages.2.weight stages.2.bias',
      names(ridge.graph(each, x)))
    local net = nn.Sequential(linear(), linear()) -- which is not called itself
    assert.equal('input net.1.weight net.1.bias net.2.weight net.2.bias',
      names(ridge.graph(function(v) return net[2](net[1](v)) end, x)))
    local Pair = nn.class 'Pair'
    function Pair:init() self.first, self.second = linear(), linear() end -- plain fields
    function Pair:forward(v) return self.second(self.first(v)) end
    assert.equal('input first.weight first.bias second.weight second.bias',
      names(ridge.graph(Pair(), x)))
  end)

  it('are told apart by what was typed at the prompt', function()
    local typed = setmetatable({ enc = linear(), dec = linear(), again = false },
      { __index = _G })
    typed.again = typed.dec
    local f = setfenv(assert(loadstring 'return function(v) return dec(enc(v)) end'), typed)()
    assert.equal('input enc.weight enc.bias again.weight again.bias', names(ridge.graph(f, x)))
  end)

  it('are told apart by class and number where it has no name for them', function()
    assert.equal('input.1 linear.weight linear.bias linear_2.weight linear_2.bias linear_3.weight '
      .. 'linear_3.bias', names(ridge.graph(chain, x, linear(), linear(), linear())))
    assert.equal('input.1 layer_norm.weight layer_norm.bias linear.weight linear.bias '
      .. 'layer_norm_2.weight layer_norm_2.bias',
      names(ridge.graph(chain, x, nn.LayerNorm(3), linear(), nn.LayerNorm(3))))
    local a, b = linear(), linear()
    local f = loadstring(string.dump(function(v) return b(a(v)) end, true)) -- without names
    debug.setupvalue(f, 1, b)
    debug.setupvalue(f, 2, a)
    assert.equal('input linear.weight linear.bias linear_2.weight linear_2.bias',
      names(ridge.graph(f, x)))
  end)

  it('are found without putting in order what else lies in a table', function()
    local data, text, n = { net = linear() }, tostring, 0
    for i = 1, 5000 do data[i] = i end
    local head = linear()
    local function f(v) return head(data.net(v)) end
    rawset(_G, 'tostring', function(...)
      n = n + 1
      return text(...)
    end)
    local ok, graph = pcall(ridge.graph, f, x)
    rawset(_G, 'tostring', text)
    assert(ok, graph)
    assert.equal('input data.net.weight data.net.bias head.weight head.bias', names(graph))
    assert.is_true(n < 100, n)
  end)

  it('take no name that another one has', function()
    local a, b = linear(), linear()
    local Outer = nn.class 'Outer'
    function Outer:init() self.a = self:child('a', linear()) end
    function Outer:forward(v) return self.a(v) end
    local outer = Outer()
    assert.equal('input a.weight a.bias a_2.weight a_2.bias b.weight b.bias',
      names(ridge.graph(function(v) return b(a(outer(v))) end, x)))
    local Odd = nn.class 'Odd'
    function Odd:init() self:param('input', ridge.ones(3)) end
    function Odd:forward(v) return v * self.input end
    local odd = Odd()
    assert.equal('input odd.input', names(ridge.graph(function(v) return odd(v) end, x)))
    local Twice = nn.class 'Twice'
    function Twice:init()
      self.one, self.two = self:child('part', linear()), self:child('part', linear())
    end
    function Twice:forward(v) return self.two(self.one(v)) end
    assert.equal('input part.weight part.bias part.weight_2 part.bias_2',
      names(ridge.graph(Twice(), x)))
  end)

  it('are one where they are tied', function()
    local a, b = linear(), linear()
    b.weight = a.weight
    assert.equal('input a.weight a.bias b.bias',
      names(ridge.graph(function(v) return b(a(v)) end, x)))
    b.bias = a.bias
    assert.equal('input weight bias', names(ridge.graph(function(v) return b(a(v)) end, x)))
  end)

  it('are the same in each capture, in copies and in files', function()
    local a, b = linear(), linear()
    local function f(v) return b(a(v)) end
    local g = ridge.graph(f, x)
    local text = g:json()
    for _ = 1, 20 do assert.equal(text, ridge.graph(f, x):json()) end
    local wanted = names(g)
    assert.equal(wanted, names(g:copy()))
    assert.equal(wanted, names(g:optimize { 'dead_code_elimination' }))
    assert.equal(wanted, names(ridge.graph.parse(text)))
    assert.equal(wanted, names(ridge.capture(f, x).graph))
  end)

  it('say where tensors belong, and which was replaced', function()
    local a, b = linear(), linear()
    local function f(v) return b(a(v)) end
    local g = ridge.graph(ridge.no_grad, f, x)
    local given = { ['a.weight'] = b.weight, ['a.bias'] = b.bias, ['b.weight'] = a.weight,
      ['b.bias'] = a.bias }
    local other = ridge.graph.parse(g:json()):plan { tensors = given }
    local y = other:run { [1] = x }
    assert.is_true(y:equal(a(b(x))))
    assert.matches("no 'a.weigth' %(did you mean 'a.weight'", failure(function()
      g:plan { tensors = { ['a.weigth'] = b.weight } }
    end))
    local whole, part = g:plan(), g:plan { tensors = { ['b.weight'] = a.weight } }
    local captured = ridge.capture(f, x)
    b.weight = ridge.zeros(3, 3)
    assert.matches('plan: b.weight was replaced', failure(whole.run, whole))
    assert.matches('plan: b.weight was replaced', failure(captured.run, captured))
    part:run() -- has another tensor in its place
  end)

  it('name their gradients', function()
    local a, b = linear(), linear()
    local g = ridge.graph(function(v) b(a(v)):sum():backward() end, x)
    local list = {}
    for i, output in ipairs(g:outputs()) do list[i] = output.name end
    table.sort(list)
    assert.equal('a.bias.grad a.weight.grad b.bias.grad b.weight.grad', table.concat(list, ' '))
  end)

  it('are numbered past what is taken, tied ones as they are', function()
    local first, second, third = linear(), linear(), linear()
    local plain = nn.Linear(3, 3, { bias = false })
    local function through(list) -- no upvalue of the function holds one
      local call = setmetatable({}, { __call = function(_, v)
        for _, module in ipairs(list) do v = module(v) end
        return v
      end })
      return ridge.graph(function(v) return call(v) end, x)
    end
    assert.equal('input linear.weight linear.bias linear_2.weight linear_2.bias linear_3.weight '
      .. 'linear_4.weight linear_4.bias', names(through { first, second, plain, third, first }))
    local other = linear()
    other.weight, other.bias = first.weight, first.bias -- another module, no other tensors
    assert.equal('input linear.weight linear.bias linear_2.weight linear_2.bias linear_3.weight '
      .. 'linear_3.bias', names(through { first, second, other, third }))
  end)
end)

-- Lines of Lua that a recording goes through.
local function lines_of(f)
  local count = 0
  local before = ridge.graph.lines(false)
  local hook, mask, every = debug.gethook()
  local compiles = jit.status()
  jit.off()
  jit.flush()
  debug.sethook(function() count = count + 1 end, 'l')
  local ok, err = pcall(ridge.graph, f, ridge.ones(1, 2))
  debug.sethook(hook, mask, every)
  if compiles then jit.on() end
  ridge.graph.lines(before)
  assert.is_true(ok, tostring(err))
  return count
end

describe('recording many modules', function()
  local function many(n)
    local list = {}
    for i = 1, n do list[i] = nn.Linear(2, 2) end
    return list
  end
  local function in_row(list)
    return function(v)
      for _, module in ipairs(list) do v = module(v) end
      return v
    end
  end
  local Lists = nn.class 'Lists' -- it calls the parts of its parts
  function Lists:init(n)
    self.a = self:child('a', nn.Sequential(unpack(many(n / 2))))
    self.b = self:child('b', nn.Sequential(unpack(many(n / 2))))
  end
  function Lists:forward(v)
    for _, part in ipairs { self.a, self.b } do
      for i = 1, #part do v = part[i](v) end
    end
    return v
  end
  local kinds = {
    ['in a Sequential'] = function(n) return nn.Sequential(unpack(many(n))) end,
    ['below lists of them'] = function(n) return Lists(n) end,
    ['that nothing names'] = function(n)
      local list = many(n)
      local hidden = setmetatable({}, { __call = function() return list end })
      return function(v) return in_row(hidden())(v) end
    end,
  }
  for kind, make in pairs(kinds) do
    it('takes as long as they are many, not the square of that: ' .. kind, function()
      lines_of(make(2)) -- what is loaded once
      local few, more = lines_of(make(50)), lines_of(make(200))
      assert.is_true(more < 5 * few, ('%d lines for 50, %d for 200'):format(few, more))
    end)
  end
end)
