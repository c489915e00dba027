-- SPDX-License-Identifier: MIT
-- Graphs as printed text, read back: random functions, behind passes too, nets, odd names, sizes
-- that may change, tensors; and texts that were damaged, which are refused with line and column or
-- are another graph that holds together.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local functions = require 'tests.lua.graph_functions'
local due = dofile 'tests/op/due.lua'
local nn = ridge.nn

local MANY = due.setting('RIDGE_RANDOM_GRAPHS', 30)
local FIRST = due.setting('RIDGE_RANDOM_FIRST', 1)

local function there_and_back(g, what)
  local text = tostring(g)
  local back = ridge.graph.parse(text)
  local same, why = back:same(g)
  assert.is_true(same, ('%s: %s\n%s'):format(what, why or '', text))
  local again = tostring(back) -- numbers without gaps, in the order of the text
  assert.equal(again, tostring(ridge.graph.parse(again)), what)
  return back
end

describe('the text of a graph', function()
  it('is read back as the graph: random functions, and behind passes', function()
    ridge.graph.lines(false)
    for seed = FIRST, FIRST + MANY - 1 do
      ridge.seed(seed)
      local world = functions.world(seed)
      functions.refill(world, 1)
      local g = ridge.graph(functions.of(world))
      there_and_back(g, seed)
      there_and_back(g:optimize 'aggressive', seed .. ' aggressive')
      there_and_back(ridge.graph.parse(g:json()), seed .. ' from JSON')
    end
    ridge.graph.lines(true)
  end)

  it('is read back of nets and training steps', function()
    ridge.seed(1)
    local conv = nn.Sequential(nn.Conv2d(3, 4, 3, { padding = 1 }), nn.BatchNorm(4), nn.ReLU(),
      nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5))
    local x = ridge.randn(2, 3, 8, 8)
    for name, g in pairs {
      net = ridge.graph(conv, x),
      half = ridge.autocast('bf16', function() return ridge.graph(conv, x) end),
      evaluated = ridge.graph(conv:eval(), x),
      attention = ridge.graph(nn.MultiHeadAttention(8, { heads = 2 }), ridge.randn(2, 3, 8)),
      lstm = ridge.graph(nn.LSTM(4, 5), ridge.randn(2, 3, 4)),
    } do
      there_and_back(g, name)
      there_and_back(g:optimize 'aggressive', name)
    end
    local step = ridge.optim.AdamW(conv:train():parameters(), { lr = 0.01 })
    local g = ridge.graph(function(a)
      step:zero_grad()
      local loss = conv(a):square():mean()
      loss:backward()
      step:step()
      return loss
    end, x)
    local back = there_and_back(g, 'a training step')
    assert.equal(#g:states(), #back:states())
    for i, node in ipairs(g:copy():nodes()) do
      local read = back:nodes()[i]
      assert.same({ node.op, node.line, node.module, node.flops, node.bytes },
        { read.op, read.line, read.module, read.flops, read.bytes })
    end
  end)

  it('keeps numbers to the bit, and names that look like something else', function()
    local x = ridge.ones(2)
    for _, number in ipairs { -0.0, 0, 0.1, 1e-300, 5e-324, 1 / 0, -1 / 0, 0 / 0, 1 / 3 } do
      there_and_back(ridge.graph(function(a) return a * number + number end, x), number)
    end
    assert.is_false(ridge.graph(function(a) return a + 0 end, x):same(
      ridge.graph.parse(tostring(ridge.graph(function(a) return a + -0.0 end, x)))))
    for _, name in ipairs { 'a b', 'a  b', 'in', 'writes %1', 'say "x"', 'a;b', 'a\nb', 'x:12',
      'derived', 'no vendor', 'gemm own', ' ', '%3', 'ü', '\\', 'at', 'ends,', '; in %0' } do
      local module = nn.Module()
      module.forward = function(_, a) return a:exp() + 1 end
      local holder = nn.Sequential()
      holder[name] = module
      local g = ridge.graph(function(a) return { [name] = module(a) } end, x)
      local json = g:json():gsub('"name": "input"', function()
        return '"name": ' .. ('%q'):format(name):gsub('\\\n', '\\n'):gsub('\\9', '\\t')
      end):gsub('"line": "[^"]*"', function()
        local quoted = ('%q'):format(name):gsub('\\\n', '\\n')
        return ('"module": %s, "line": %s'):format(quoted, quoted)
      end)
      local odd = ridge.graph.parse(json)
      local back = there_and_back(odd, name)
      assert.equal(name, back:inputs()[1].name)
      assert.equal(name, back:outputs()[1].name)
      assert.equal(name, back:nodes()[1].module)
      assert.equal(name, back:nodes()[1].line)
    end
  end)

  it('says what follows from no line: storages, results, types, streams', function()
    local x = ridge.ones(4, 6)
    local rows, own = x:narrow(1, 1, 2), ridge.generator(3)
    local g = ridge.graph(function(a, b)
      return a:exp(), b:sin():dropout(0.5, own), a:t():reshape(24)
    end, x, rows)
    there_and_back(g, 'two views of one storage')
    assert.truthy(tostring(g):find('; in %0', 1, true), tostring(g))
    assert.truthy(tostring(g):find('stream 1', 1, true))
    local json = g:json()
    for from, to in pairs {
      ['"op": "exp"'] = '"op": "exp", "compute": "f32", "derived": 1, "deterministic": 1',
      ['"op": "sin"'] = '"op": "sin", "layout": 1, "autotune": 2, "gemm": "own", "vendor": 0',
      ['"op": "transpose"'] = '"op": "transpose", "recomputed": 1, "tf32": 1, "autocast": "bf16"',
      ['"op": "dropout"'] = '"op": "dropout", "weight_cast": "f16"',
    } do
      assert.truthy(json:find(from, 1, true))
      json = json:gsub(from, function() return to end)
    end
    there_and_back(ridge.graph.parse(json), 'modes')
  end)

  it('has functions of a size that may change', function()
    local net = nn.Sequential(nn.Linear(3, 4), nn.ReLU()):eval()
    local function f(a) return net(a):reshape(-1), ridge.concat({ a, a }, 1) end
    local g = ridge.graph(f, ridge.ones(4, 3), { sizes = { { 'N', 3 } } })
    local text = tostring(g)
    assert.truthy(text:find('^graph of %d+ nodes, 2 outputs, N = 4\n'), text)
    assert.truthy(text:find('f32[<N>,3]', 1, true), text)
    assert.truthy(text:find('f32[<4*N>]', 1, true), text)
    local back = there_and_back(g, 'sizes')
    for _, n in ipairs { 1, 4, 11 } do assert.is_true(back:at(n):same(g:at(n))) end
    assert.equal(#g:sizes(), #back:sizes())
    assert.equal(text, tostring(back))
  end)

  it('takes the tensors that it cannot hold', function()
    local x, table_of = ridge.randn(2, 3), ridge.arange(1, 3)
    local net = nn.Linear(3, 3)
    local function f(a) return net(a) * ridge.arange(1, 3):square() end
    local g = ridge.inference(ridge.graph, f, x):optimize { 'constant_folding' }
    local text = tostring(g)
    local id = text:match '(%%%d+): f32%[3%]%s+constant'
    local tensors = { [id] = table_of:square(), input = x }
    for name, t in pairs(net:state()) do tensors[name] = t end
    assert.has_error(function() ridge.graph.parse(text):plan() end)
    local plan = ridge.graph.parse(text, { tensors = tensors }):plan()
    assert.same(bits.all(f(x)), bits.all(plan:run()))
    local ok, err = pcall(ridge.graph.parse, text, { tensors = { inptu = x } })
    assert.is_false(ok)
    assert.truthy(tostring(err):find("the text has no 'inptu' (did you mean 'input'?)", 1, true))
    assert.has_error(function()
      ridge.graph.parse(text, { tensors = { input = ridge.ones(7) } })
    end)
  end)

  it('is refused with line and column where it is damaged', function()
    local text = 'graph of 1 node\n  %0: f32[2]  input x\n  %1: f32[2] = relu(%0)\n  return %1\n'
    ridge.graph.parse(text)
    for _, case in ipairs {
      { 'of 1 node', 'of 2 nodes', '4, column 12: the text has 1 nodes, and says that it has 2' },
      { 'relu', 'rleu', "3, column 20: there is no operation 'rleu'" },
      { 'relu%(%%0', 'relu(%%7', '3, column 23: %7 is read before a node makes it' },
      { 'f32%[2%]  i', 'f33[2]  i', "2, column 7: there is no type 'f33'" },
      { 'input x', 'inptu x', "2, column 20: there is no kind of value 'inptu'" },
      { '%%1: f32%[2%] =', '%%0: f32[2] =', '3, column 24: %0 is made a second time' },
      { 'f32%[2%] =', 'f32[3] =', nil },
      { 'relu%(%%0%)', 'relu(%%0) {x=1}', "3, column 27: relu has no argument 'x'" },
      { '  %%1:', '    %%1:', '3, column 5: a line of a body whose compound does not end' },
      { 'return', 'retrun', "4, column 9: there is no operation 'retrun'" },
      { '%%0%)\n', '%%0) ; derived what is\n', "3, column 42: 'what is' is no part of a" },
      { 'f32%[2%]  i', 'f32[99999999999999999999]  i', '2, column 7: ' },
    } do
      local ok, err = pcall(ridge.graph.parse, (text:gsub(case[1], case[2], 1)))
      assert.is_false(ok, case[2])
      if case[3] then
        assert.truthy(tostring(err):find('line ' .. case[3], 1, true), tostring(err))
      end
    end
  end)

  it('has types of up to 255 characters', function()
    local text = 'graph of 1 node\n  %0: f32[2]  input x\n  %1: f32[2] = relu(%0)\n  return %1\n'
    for length = 254, 258 do
      local long = 'f32[' .. ('0'):rep(length - 6) .. '2]'
      local ok, graph = pcall(ridge.graph.parse, (text:gsub('f32%[2%]', long, 1)))
      assert.equal(length <= 255, ok, tostring(graph))
      if ok then assert.same({ 2 }, graph:inputs()[1].shape) end
    end
  end)

  it('has words up to a length, which is told', function()
    local text = 'graph of 1 node\n  %0: f32[2]  input x\n  %1: f32[2] = relu(%0)\n  return %1\n'
    for _, case in ipairs {
      { 63, 'relu', '%s', "there is no operation '%s'" },
      { 15, 'input', '%s', "there is no kind of value '%s'" },
      { 47, 'relu%(%%0%)', 'relu(%%%%0) {%s=1}', "relu has no argument '%s'" },
    } do
      for more = 0, 1 do
        local word = ('x'):rep(case[1] + more)
        local ok, err = pcall(ridge.graph.parse, (text:gsub(case[2], case[3]:format(word), 1)))
        assert.is_false(ok)
        local want = more == 0 and case[4]:format(word)
          or ('a word of more than %d letters'):format(case[1])
        assert.truthy(err.message:find(want, 1, true), err.message)
      end
    end
  end)

  it('is refused wherever it is cut off', function()
    local function outputs(n)
      return function(a)
        local b, c = a:relu(), a:sum()
        if n == 0 then a:mul_(2) end
        return n == 2 and b or n == 1 and c or nil, n == 2 and c or nil
      end
    end
    for n = 0, 2 do
      local text = tostring(ridge.graph(outputs(n), ridge.ones(2)))
      assert.is_true(ridge.graph.parse(text):check() ~= false)
      for length = 0, #text - 1 do
        local ok, err = pcall(ridge.graph.parse, text:sub(1, length))
        assert.is_false(ok, text:sub(1, length))
        assert.equal('EFORMAT', err.code)
      end
    end
    local sized = tostring(ridge.graph(outputs(2), ridge.ones(2, 3), { sizes = { { 'N', 3 } } }))
    for length = 0, #sized - 1 do
      assert.is_false(pcall(ridge.graph.parse, sized:sub(1, length)), sized:sub(1, length))
    end
    local plain = 'graph of 0 nodes%s\n  %%0: f32[2]  input x\n  return %%0\n'
    ridge.graph.parse(plain:format(''))
    ridge.graph.parse(plain:format(', 1 output'))
    local ok, err = pcall(ridge.graph.parse, plain:format ', 2 outputs')
    assert.is_false(ok)
    assert.equal('graph: line 3, column 12: the text has 1 outputs, and says that it has 2',
      err.message)
  end)

  it('holds together, or is refused, with any byte changed, left out or doubled', function()
    ridge.seed(3)
    local world = functions.world(12)
    functions.refill(world, 1)
    local parts = { tostring(ridge.graph(functions.of(world)):optimize 'standard'),
      tostring(ridge.graph(nn.LSTM(2, 2), ridge.ones(1, 2, 2)):optimize 'aggressive') }
    local BYTES = '%[]{}()=;,:"-# \n0129vaf|<>@.\0\255'
    math.randomseed(7)
    local refused, read = 0, 0
    for k = 1, 10 * MANY do
      local text = parts[k % 2 + 1]
      for _ = 1, math.random(3) do
        local at, byte = math.random(#text), math.random(#BYTES)
        local kind = math.random(4)
        text = kind == 1 and text:sub(1, at - 1) .. BYTES:sub(byte, byte) .. text:sub(at + 1)
          or kind == 2 and text:sub(1, at - 1) .. text:sub(at + 1)
          or kind == 3 and text:sub(1, at)
          or text:sub(1, at) .. text:sub(math.max(1, at - 20))
      end
      local ok, g = pcall(ridge.graph.parse, text)
      if ok then
        read = read + 1
        g:check()
        assert.is_true(ridge.graph.parse(tostring(g)):same(g))
      else
        refused = refused + 1
        assert.equal('EFORMAT', g.code, tostring(g))
      end
    end
    assert.is_true(refused > 5 * MANY, refused)
    assert.is_true(read > 0)
  end)
end)
