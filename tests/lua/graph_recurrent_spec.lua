-- SPDX-License-Identifier: MIT
-- A recurrent layer in one direction is one node of a graph: what the node is, and that plans of it
-- have the bits of the eager run. Its numbers are held against PyTorch's in nn/fixtures_spec.lua.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local nn, optim = ridge.nn, ridge.optim

-- Nodes that are in no body, or in that of a node.
local function nodes_in(graph, node)
  local list = {}
  for _, each in ipairs(graph:nodes()) do
    if each.parent == node then list[#list + 1] = each end
  end
  return list
end

local function ops(list)
  local names = {}
  for i, node in ipairs(list) do names[i] = node.op end
  return table.concat(names, ' ')
end

local function count(list, op)
  local n = 0
  for _, node in ipairs(list) do n = node.op == op and n + 1 or n end
  return n
end

local function names(values)
  local list = {}
  for i, value in ipairs(values) do list[i] = value and (value.name or value.kind) or '-' end
  return table.concat(list, ' ')
end

-- What a layer gives from x and its states, for graphs with inputs of their own for these.
local function with_states(layer)
  return function(x, ...) return layer(x, select('#', ...) > 0 and { ... } or nil) end
end

local function sequence(dtype) return ridge.randn(2, 3, 5):to(dtype or 'f32') end
local function before(k, dtype) return ridge.randn(k, 2, 4):to(dtype or 'f32') end

-- Plans of a function have its bits, whatever its inputs hold.
local function runs_as(f, ...)
  local inputs = { ... }
  for _, plan in ipairs { ridge.graph(f, ...):plan(), ridge.capture(f, ...) } do
    for round = 1, 3 do
      for _, x in ipairs(inputs) do x:copy_(ridge.randn(unpack(x.shape)):to(x.dtype)) end
      assert.same(bits.all(f(...)), bits.all(plan:run()), 'round ' .. round)
    end
  end
end

local KINDS = { LSTM = { nn.LSTM, 2 }, GRU = { nn.GRU, 1 } }

for kind, of in pairs(KINDS) do
  local class, n_states = unpack(of)
  local states = { before(1), n_states == 2 and before(1) or nil }

  describe('a recorded ' .. kind, function()
    it('is one node, with the product of all places and the places in its body', function()
      local layer = class(5, 4)
      for _, given in ipairs { {}, states } do
        local g = ridge.graph(with_states(layer), sequence(), unpack(given))
        local top = nodes_in(g)
        assert.equal('recurrent', ops(top))
        local body = nodes_in(g, top[1])
        assert.equal(1, count(body, 'linear'))
        assert.equal(3, count(body, 'recurrent_cell'))
        assert.equal('concat', ops(body):match 'recurrent_cell.-(concat)')
        assert.equal(1 + n_states, #g:outputs())
        for i, output in ipairs(g:outputs()) do
          assert.equal(top[1].outputs[i].id, output.value.id)
          assert.same(i == 1 and { 2, 3, 4 } or { 1, 2, 4 }, output.value.shape)
        end
      end
    end)

    it('has what it reads by name', function()
      local layer = class(5, 4)
      local g = ridge.graph(with_states(layer), sequence())
      assert.equal('input - - 1.recurrent.weight 1.recurrent.bias 1.input.weight 1.input.bias',
        names(nodes_in(g)[1].inputs))
      assert.equal('1', nodes_in(g)[1].module)
      g = ridge.graph(with_states(class(5, 4, { bias = false })), sequence(), unpack(states))
      assert.equal('input.1 input.2 ' .. (n_states == 2 and 'input.3' or '-')
        .. ' 1.recurrent.weight - 1.input.weight -', names(nodes_in(g)[1].inputs))
    end)

    it('of several is a node for each layer and direction, and what joins them', function()
      local layer = class(5, 4, { layers = 2, bidirectional = true })
      local joins = (' concat'):rep(n_states)
      local two = 'recurrent recurrent concat'
      local g = ridge.graph(nn.Sequential(layer), sequence())
      assert.equal(two .. ' ' .. two .. joins, ops(nodes_in(g)))
      local modules, backwards = {}, {}
      for _, node in ipairs(nodes_in(g)) do
        if node.op == 'recurrent' then
          modules[#modules + 1] = node.module
          backwards[#backwards + 1] = node.args.backwards
        end
      end
      assert.same({ '1.1', '1.1b', '1.2', '1.2b' }, modules)
      assert.same({ false, true, false, true }, backwards)
      -- a view of each given state is all that comes before a node
      g = ridge.graph(with_states(layer), sequence(), before(4), n_states == 2 and before(4) or nil)
      local one = ('narrow '):rep(n_states) .. 'recurrent '
      assert.equal((one .. one .. 'concat '):rep(2) .. joins:sub(2), ops(nodes_in(g)))
    end)

    it('runs with the bits of the eager run', function()
      for _, dtype in ipairs { 'f32', 'f64', 'bf16' } do
        local layer = class(5, 4):to(dtype)
        runs_as(with_states(layer), sequence(dtype))
        runs_as(with_states(layer), sequence(dtype), before(1, dtype),
          n_states == 2 and before(1, dtype) or nil)
      end
      local deep = class(5, 4, { layers = 2, bidirectional = true })
      runs_as(with_states(deep), sequence(), before(4), n_states == 2 and before(4) or nil)
      for _, cast in ipairs { 'bf16', 'f16' } do
        runs_as(function(x) return ridge.autocast(cast, deep, x) end, sequence())
      end
      runs_as(with_states(class(5, 4)), ridge.randn(1, 1, 5))
    end)

    it('trains with the bits of the eager steps, node by node', function()
      for _, cast in ipairs { false, 'bf16' } do
        local function make()
          local layer = class(5, 4, { seed = 1, layers = 2, dropout = 0.3 })
          local x = sequence()
          local optimizer = optim.Adam(layer, { lr = 0.01 })
          local function loss_of()
            local y, h, c = layer(x)
            return y:square():mean() + (c or h):sum()
          end
          return function()
            optimizer:zero_grad()
            local loss = cast and ridge.autocast(cast, loss_of) or loss_of()
            loss:backward()
            optimizer:step()
            return loss
          end, layer
        end
        ridge.seed(5)
        local eager, eager_net = make()
        ridge.seed(5)
        local recorded, net = make()
        ridge.seed(6)
        local want = {}
        for i = 1, 4 do want[i] = bits.all(eager()) end
        ridge.seed(6)
        local g = ridge.graph(recorded)
        assert.equal(2, count(nodes_in(g), 'recurrent'))
        local plan = g:plan()
        for i = 2, 4 do assert.same(want[i], bits.all(plan:run()), 'step ' .. i) end
        assert.same(bits.all(eager_net:state()), bits.all(net:state()))
      end
    end)

    it('runs behind every exact pass, and as a clone', function()
      local layer, x = class(5, 4):eval(), sequence()
      local g = ridge.graph(ridge.inference, layer, x)
      local want = bits.all(ridge.inference(layer, x))
      local tried = 0
      for _, pass in ipairs(ridge.graph.passes()) do
        if pass.exactness == 'exact' and pass.does then
          tried = tried + 1
          assert.same(want, bits.all(g:optimize({ pass.name }):plan():run()), pass.name)
        end
      end
      assert.is_true(tried > 2)
      assert.same(want, bits.all(g:plan():clone():run()))
    end)

    it('as a plan learns that a parameter was replaced', function()
      local layer, x = class(5, 4):eval(), sequence()
      for _, name in ipairs { 'input', 'recurrent' } do
        local part = layer.cells[1][name]
        for _, own in ipairs { 'weight', 'bias' } do
          local plan = ridge.capture(ridge.inference, layer, x)
          part[own] = part[own] * 2
          local ok, e = pcall(plan.run, plan)
          assert.is_false(ok)
          assert.truthy(tostring(e):find(('1.%s.%s'):format(name, own), 1, true), tostring(e))
        end
      end
    end)

    it('is saved and loaded', function()
      local layer, x = class(5, 4), sequence()
      local g = ridge.graph(with_states(layer), x)
      local loaded = ridge.graph.parse(g:json())
      assert.is_true(g:same(loaded))
      assert.equal(g:json(), loaded:json())
      local tensors = layer:state()
      tensors.input = x
      assert.same(bits.all(layer(x)), bits.all(loaded:plan({ tensors = tensors }):run()))
    end)

    it('does as many operations as its parts', function()
      local layer = class(5, 4)
      local gates = kind == 'LSTM' and 4 or 3
      local facts = ridge.graph(with_states(layer), sequence()):plan():facts()
      local products = 2 * 2 * 3 * (5 + 4) * gates * 4 -- 2 rows of 3 places
      local cell = class(5, 4)
      cell.cells[1].input = function(z) return layer.cells[1].input(z) end
      local apart = ridge.graph(with_states(cell), sequence()):plan():facts()
      assert.is_true(facts.flops > products)
      assert.equal(apart.flops, facts.flops)
      assert.equal(apart.n_steps, facts.n_steps)
    end)

    it('of a layer whose input is no plain linear one takes what that gives', function()
      local layer, x = class(5, 4, { seed = 1 }), sequence()
      local want = bits.all(layer(x))
      local input = layer.cells[1].input
      layer.cells[1].input = function(z) return input(z) end
      local g = ridge.graph(with_states(layer), x)
      assert.equal('linear recurrent', ops(nodes_in(g)))
      assert.equal('- -', names(nodes_in(g)[2].inputs):match '%- %-$')
      assert.same(want, bits.all(layer(x)))
      runs_as(with_states(layer), x)
      layer.cells[1].input = nn.Linear(5, input.n_out, { activation = 'relu' })
      assert.equal('linear recurrent', ops(nodes_in(ridge.graph(with_states(layer), x))))
      layer.cells[1].input = nn.Linear(5, input.n_out, { dropout = 0.5 }):eval()
      assert.equal('recurrent', ops(nodes_in(ridge.graph(with_states(layer), x))))
      layer.cells[1].input:train()
      assert.equal('linear_dropout recurrent', ops(nodes_in(ridge.graph(with_states(layer), x))))
      layer.cells[1].input = nn.Linear(5, input.n_out):recompute()
      assert.matches('linear recurrent$', ops(nodes_in(ridge.graph(with_states(layer), x))))
      input.forward = function(_, z) return nn.Linear.forward(input, z) * 2 end
      layer.cells[1].input = input
      assert.equal('linear mul recurrent', ops(nodes_in(ridge.graph(with_states(layer), x))))
    end)

    it('computes with a parametrised weight, and trains what that is computed from', function()
      local layer, x = class(5, 4, { seed = 1 }), sequence()
      local other = class(5, 4, { seed = 1 })
      local input = layer.cells[1].input
      input:parametrize('weight', { forward = function(w) return w * 2 end })
      ridge.no_grad(function() other.cells[1].input.weight:mul_(2) end)
      local g = ridge.graph(with_states(layer), x)
      assert.equal('mul recurrent', ops(nodes_in(g)))
      assert.same(bits.all(other(x)), bits.all(layer(x)))
      runs_as(with_states(layer), x)
      local function gradient(net, name)
        for _, p in ipairs(net:parameters()) do p.tensor:zero_grad() end
        net(x):sum():backward()
        for _, p in ipairs(net:parameters()) do
          if p.name == name then return p.tensor.grad end
        end
      end
      assert.same(bits.all(gradient(other, '1.input.weight') * 2),
        bits.all(gradient(layer, '1.input.weight')))
    end)
  end)
end

describe('a file of a graph with a recurrent node', function()
  it('that was multiplied outside of it runs as it did', function()
    -- saved when rg_recurrent took what was multiplied, and states without an axis for layers
    local g = ridge.graph.load 'tests/fixtures/recurrent_layer.json'
    assert.equal('linear recurrent', ops(nodes_in(g)):match 'linear recurrent')
    assert.equal(5, #nodes_in(g)[6].inputs)
    local layer = nn.LSTM(2, 2, { bias = false })
    local x, h, c = ridge.randn(1, 1, 2), ridge.randn(1, 1, 2), ridge.randn(1, 1, 2)
    local tensors = layer:state()
    tensors['input.1'], tensors['input.2'], tensors['input.3'] = x, h, c
    local plan = g:plan { tensors = tensors }
    for _ = 1, 3 do
      for _, each in ipairs { x, h, c } do each:copy_(ridge.randn(1, 1, 2)) end
      assert.same(bits.all(layer(x, { h, c })), bits.all(plan:run()))
    end
    assert.is_true(g:same(ridge.graph.parse(g:json())))
  end)
end)

describe('a profile of a recurrent layer', function()
  it('tells its layers and directions apart', function()
    local net = nn.Sequential(nn.LSTM(5, 4, { bidirectional = true }))
    local x = sequence()
    local p = ridge.profile(function() ridge.inference(net, x) end)
    local seen = {}
    for _, range in ipairs(p.ranges) do seen[range.name] = range.calls end
    assert.same({ 1, 1, 2, 6 }, { seen['1.1'], seen['1.1b'], seen.recurrent, seen.recurrent_cell })
    seen = {}
    for _, call in ipairs(p.calls) do
      if call.op == 'linear' then
        seen[call.module] = (seen[call.module] or 0) + call.calls
      end
    end
    assert.same({ ['1.1'] = 4, ['1.1b'] = 4 }, seen)
  end)
end)
