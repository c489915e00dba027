-- SPDX-License-Identifier: MIT
local ridge = require 'ridge'

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

-- Blocks of a linear layer and a GELU, one behind the other, in a file.
local function blocks(n)
  local values, nodes = {
    '{"id": 0, "kind": "input", "type": "f32[4,8]", "storage": 0, "name": "x"}',
  }, {}
  local function value(line)
    local id = #values
    values[id + 1] = line:gsub('ID', tostring(id))
    return id
  end
  local x = 0
  for i = 1, n do
    local w = value(('{"id": ID, "kind": "parameter", "type": "f32[8,8]", "storage": ID, '
      .. '"name": "blocks.%d.weight"}'):format(i))
    local y = value '{"id": ID, "kind": "intermediate", "type": "f32[4,8]", "storage": ID}'
    nodes[#nodes + 1] = ('{"op": "linear", "in": [%d, %d, null], "out": [%d], '
      .. '"args": {"act": "none"}, "module": "blocks.%d", "line": "net.lua:%d"}'):format(x, w, y, i,
      10 + i)
    x = value '{"id": ID, "kind": "intermediate", "type": "f32[4,8]", "storage": ID}'
    nodes[#nodes + 1] = ('{"op": "gelu", "in": [%d], "out": [%d], "module": "blocks.%d"}'):format(y,
      x, i)
  end
  return ridge.graph.parse(('{"ridge_graph": 1, "values": [%s], "nodes": [%s], "inputs": [0], '
    .. '"states": [], "outputs": [{"value": %d, "name": "y"}]}'):format(
    table.concat(values, ',\n'), table.concat(nodes, ',\n'), x))
end

local function ops(graph)
  local list = {}
  for i, node in ipairs(graph:nodes()) do list[i] = node.op end
  return table.concat(list, ' ')
end

describe('graphs', function()
  -- twenty lines of Lua have to be enough for a pass
  local function second_block(graph)
    for _, node in ipairs(graph:nodes()) do
      if node.op == 'gelu' and node.module == 'blocks.2' then
        local relu = graph:insert('relu', node.inputs, { after = node })
        graph:replace(node.outputs[1], relu.outputs[1])
        graph:remove(node)
      end
    end
  end

  it('note of a node that is inserted what its weights are read in', function()
    local g = blocks(1) -- of a file, which says nothing of it
    local linear = g:nodes()[1]
    assert.is_nil(g:json():find('weight_cast', 1, true))
    g:insert('linear', linear.inputs, { after = linear, args = { act = 'none' } })
    local _, n = g:json():gsub('"weight_cast": "f32"', '')
    assert.equal(1, n)
  end)

  it('are edited by passes, on a copy', function()
    local g = blocks(3)
    ridge.graph.pass('relu in the second block', second_block)
    local other = g:optimize { 'relu in the second block' }
    assert.equal('linear gelu linear relu linear gelu', ops(other))
    assert.equal('linear gelu linear gelu linear gelu', ops(g))
    local relu = other:nodes()[4]
    assert.equal('blocks.2', relu.module)
    assert.equal('linear', relu.inputs[1].producer.op)
    assert.equal('linear', relu.outputs[1].uses[1].op)
    assert.same({ 4, 8 }, relu.outputs[1].shape)
    assert.is_false((g:same(other)))
    assert.is_true(g:same(blocks(3)))
    assert.equal(7, relu.outputs[1].id + 1, 'values of a copy are numbered without gaps')
  end)

  it('have views in the memory of what came in the place of what they viewed', function()
    local x, y = ridge.tensor { { 1, 2 }, { 3, 4 } }, ridge.tensor { { 5, 6 }, { 7, 8 } }
    local g = ridge.graph(function(a, b) return a:t():narrow(1, 1, 1) * 2, b + 1 end, x, y)
    assert.equal('transpose narrow mul add', ops(g))
    g:replace(g:inputs()[1], g:inputs()[2]) -- the first node is the view
    g:check()
    assert.same({ { 10, 14 } }, (g:plan()()):tolist())
  end)

  it('tell what nodes and values are', function()
    local g = blocks(2)
    local node = g:nodes()[1]
    assert.equal('linear', node.op)
    assert.equal('net.lua:11', node.line)
    assert.equal('none', node.args.act)
    assert.equal(3, #node.inputs)
    assert.is_false(node.inputs[3], 'a bias that is left out')
    assert.equal(node.inputs[1], g:inputs()[1])
    local w = node.inputs[2]
    assert.equal('blocks.1.weight', w.name)
    assert.equal('parameter', w.kind)
    assert.equal('f32', w.dtype)
    assert.equal('cpu', w.device)
    assert.is_nil(w.producer)
    assert.equal(node, w.uses[1])
    assert.equal(7, #g:values())
    assert.equal('y', g:outputs()[1].name)
    assert.equal('returned', g:outputs()[1].kind)
    assert.same({}, g:states())
    assert.same({}, node.body)
    assert.equal('node 0 (linear, blocks.1)', tostring(node))
    assert.equal('%1: f32[8,8] blocks.1.weight', tostring(w))
    assert.truthy(failure(function() return node.modul end):find(
      "a node has no 'modul' (did you mean 'module'?)", 1, true))
    assert.truthy(failure(function() return w.shap end):find("did you mean 'shape'", 1, true))
  end)

  it('print a line a node', function()
    local text = tostring(blocks(1))
    assert.truthy(text:find('graph of 2 nodes\n', 1, true))
    assert.truthy(text:find('\n  %%2: f32%[4,8%] = linear%(%%0, %%1, %-%) +; no weight_cast  '
      .. 'blocks.1  net.lua:11'))
    assert.truthy(text:find('\n  return %3 y\n', 1, true))
  end)

  it('are saved and loaded', function()
    local g, path = blocks(3), os.tmpname()
    g:save(path)
    assert.is_true(g:same(ridge.graph.load(path)))
    local none = ridge.graph(function(x) return x:relu() end, ridge.ones(0, 3))
    assert.same({ 0, 3 }, ridge.graph.parse(none:json()):values()[1].shape)
    assert.same({}, ridge.graph(function(x) return x end, ridge.ones(2)):nodes())
    assert.equal(g:json(), ridge.graph.load(path):json())
    assert.truthy(failure(ridge.graph.load, path .. '.none'):find('graph.load', 1, true))
    assert.truthy(failure(ridge.graph.load, '/'):find('graph.load', 1, true))
    -- a file that was saved when a weight_cast was called lower
    local layer = ridge.nn.Linear(4, 4, { seed = 1 })
    local now = ridge.graph(function(x) return ridge.autocast('bf16', layer, x) end,
      ridge.ones(2, 4)):json()
    local old, n = now:gsub('"weight_cast"', '"lower"')
    assert.is_true(n > 0)
    assert.equal(now, ridge.graph.parse(old):json())
    local plain = ridge.graph(function(x) return x:relu() end, ridge.ones(2)):json()
    assert.is_nil(plain:find('weight_cast', 1, true)) -- it has no weight
    os.remove(path)
    assert.truthy(failure(ridge.graph.parse, 'os.exit()'):find("line 1: '{' is expected", 1, true))
    assert.truthy(failure(ridge.graph.parse, nil):find('a text is expected', 1, true))
  end)

  it('stay as they are where a pass fails', function()
    local g = blocks(2)
    local before = g:json()
    ridge.graph.pass('fails', function(graph)
      second_block(graph)
      error 'halfway'
    end)
    ridge.graph.pass('breaks', function(graph)
      local nodes = graph:nodes()
      graph:replace(nodes[1].outputs[1], nodes[3].outputs[1])
    end)
    assert.truthy(failure(g.optimize, g, { 'fails' }):find("pass 'fails': .*halfway"))
    local said = failure(g.optimize, g, { 'breaks' })
    assert.truthy(said:find(
      "pass 'breaks': graph: node 1 (gelu, blocks.1) reads %5 before node 2 (linear) makes it", 1,
      true), said)
    assert.truthy(failure(g.optimize, g, { 'fail' }):find("did you mean 'fails'", 1, true))
    assert.equal(before, g:json())
    local names = {}
    for _, pass in ipairs(ridge.graph.passes()) do names[pass.name] = true end
    assert.truthy(names.fails and names.breaks)
  end)

  it('refuse what does not fit', function()
    local g, other = blocks(2), blocks(2)
    local linear, gelu = g:nodes()[1], g:nodes()[2]
    local x = linear.inputs[1]
    local function refused(text, f, ...)
      local said = failure(f, g, ...)
      assert.truthy(said:find(text, 1, true), said)
      assert.truthy(said:find('graph_spec.lua:', 1, true), said)
    end
    refused('one of another graph', g.replace, x, other:inputs()[1])
    refused('a value of this graph is expected, got a node', g.replace, x, gelu)
    refused('which node 1 (gelu) needs', g.remove, linear)
    refused("there is no operation 'rleu' (did you mean 'relu'?)", g.insert, 'rleu', { x },
      { after = gelu })
    refused('before a node or after one', g.insert, 'relu', { x }, {})
    refused("unknown option 'behind'", g.insert, 'relu', { x }, { behind = gelu })
    refused('softmax: there is no axis 3 of 2', g.insert, 'softmax', { x },
      { after = gelu, args = { axis = 3 } })
    refused("softmax has no argument 'axes'", g.insert, 'softmax', { x },
      { after = gelu, args = { axes = 1 } })
    refused('would draw', g.insert, 'dropout', { x }, { after = gelu })
    refused('linear', g.insert, 'linear', { linear.inputs[2], x, false },
      { after = gelu, args = { act = 'nothing' } })
    assert.is_true(g:same(other))
  end)

  it('take arguments as methods do', function()
    local g = blocks(1)
    local last = g:nodes()[2]
    local node = g:insert('softmax', { last.outputs[1] }, { after = last, args = { axis = -1 } })
    assert.equal(2, node.args.axis)
    node = g:insert('linear', { last.outputs[1], g:nodes()[1].inputs[2], false },
      { after = node, args = { act = 'relu' } })
    assert.equal('relu', node.args.act)
    node = g:insert('sum', { last.outputs[1] }, { after = node, args = { axes = { 1, -1 } } })
    assert.same({ 1, 2 }, node.args.axes)
    node = g:insert('sum', { last.outputs[1] }, { after = node, args = { axes = 2, keep = true } })
    assert.same({ 2 }, node.args.axes)
    assert.same({ 4, 1 }, node.outputs[1].shape)
    node = g:insert('mean', { last.outputs[1] }, { after = node })
    assert.same({ 1, 2 }, node.args.axes)
    g:check()
    assert.equal('linear gelu softmax linear sum sum mean', ops(g))
  end)

  it('are printed with arguments as one types them', function()
    local text = tostring(ridge.graph(function(x)
      return x:transpose(1, 2):sum(2, true), x:narrow(1, 2, 1), x:permute { 2, 1 }:cumsum(1, true),
        x:mean()
    end, ridge.ones(2, 3)))
    local function has(what) assert.truthy(text:find(what, 1, true), text) end
    has 'transpose(%0) {a=1, b=2}'
    has '{axes=[2], keep=true}'
    has '{axis=1, start=2, length=1}'
    has '{order=[2, 1]}'
    has '{axis=1, reverse=true}'
    has 'mean(%0) {axes=[1, 2]}'
  end)

  it('of 20,000 nodes are walked and edited', function()
    local g = blocks(10000)
    ridge.graph.pass('all', function(graph)
      for _, node in ipairs(graph:nodes()) do
        if node.op == 'gelu' then
          graph:replace(node.outputs[1],
            graph:insert('relu', node.inputs, { after = node }).outputs[1])
          graph:remove(node)
        end
      end
    end)
    local other = g:optimize { 'all' }
    assert.equal(20000, #other:nodes())
    assert.equal('relu', other:nodes()[20000].op)
  end)
end)
