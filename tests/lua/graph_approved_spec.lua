-- SPDX-License-Identifier: MIT
-- What each pass makes of functions, to the letter: every value's type and storage, every node's
-- arguments, modes, cost, module and line, as approved.  A function stands under the pass that
-- has something to do in it, or just not.
local approved = require 'tests.lua.approved'
local ridge = require 'ridge'
local nn = ridge.nn
local modes = require('ridge.ffi.lib').rg_device_modes_now()

local texts

-- A graph as its file has it, one node a line: a value's type, storage, version and name stand
-- where it is made.
local function compact(json)
  local value, out, before = {}, {}, {}
  for id, rest in json:gmatch '{"id": (%d+), "kind": ([^\n]*)}' do
    value[id] = id .. ' ' .. rest:gsub('"intermediate", ', ''):gsub('"type": "(.-)"', '%1')
      :gsub(', "storage": (%d+)', ' s%1'):gsub(', "version": (%d+)', 'v%1'):gsub('"', '')
    if not rest:find('intermediate', 1, true) then before[#before + 1] = value[id] end
  end
  out[1] = '  ' .. table.concat(before, '; ')
  local node = '{"op": "([%w_]+)", "in": (%b[]), "out": (%b[])([^\n]*)}'
  for op, inputs, made, rest in json:gmatch(node) do
    local list = {}
    for id in made:gmatch '%-?%d+' do list[#list + 1] = value[id] or id end
    out[#out + 1] = ('  %s %s -> %s%s'):format(op, inputs, table.concat(list, '; '), rest)
  end
  return table.concat(out, '\n') .. json:match '\n  "inputs".*':gsub('\n%s*', ' '):gsub('^', '\n ')
end

-- The graph behind passes; lines count from the function's first.
local function text_of(name, passes, f, first, ...)
  local graph = ridge.graph(f, ...)
  local before = graph:json()
  local text = compact(graph:optimize(passes):check():json())
  assert.equal(before, graph:json())
  text = text:gsub('"line": "[^"]*:(%d+)"', function(n) return '"line": "+' .. n - first .. '"' end)
  return ('## %s\n%s\n'):format(name, text)
end

local plain_of = setmetatable({}, { __mode = 'k' }) -- the function in an inferred one

local function inferred(f)
  local function g(...) return ridge.inference(f, ...) end
  plain_of[g] = f
  return g
end

local function first_line(f) return debug.getinfo(plain_of[f] or f).linedefined end

local function shown(pass)
  texts = {}
  return function(name, f, ...)
    texts[#texts + 1] = text_of(name, { pass }, f, first_line(f), ...)
  end, function(name, before, f, ...)
    before[#before + 1] = pass
    texts[#texts + 1] = text_of(name, before, f, first_line(f), ...)
  end
end

local function approve(pass)
  approved.check('graph/' .. pass, table.concat(texts, '\n'))
end

describe('the graph behind', function()
  -- the path that RIDGE_GEMM forces is a mode of nodes
  local before = ridge.backend.now()
  setup(function() ridge.backend.set_gemm 'auto' end)
  teardown(function() ridge.backend.set_gemm(before.gemm) end)
  before_each(function() ridge.seed(1) end)

  it('arithmetic identities', function()
    local case = shown 'arithmetic_identities'
    local x, row = ridge.randn(2, 3), ridge.randn(3)
    local whole = ridge.ones(2, 3):to 'i32'
    local layer, deep = nn.Linear(3, 3), nn.GRU(3, 2)
    case('numbers that change nothing', function(a)
      local y = a * 1
      local z = (1 * y:exp()) - 0
      return (z / 1):neg(), z:tanh()
    end, x)
    case('numbers that change something', function(a)
      local y = a:exp()
      return y + 0, y - -0.0, 0 - y, 1 / y, 1 - y, y * 0, y / 0, y * -1, y ^ 1, y - 1, y / 2
    end, x)
    case('tensors of ones, zeros and twos', function(a)
      local y = a:exp()
      local one, zero, two = ridge.ones(2, 3), ridge.zeros(2, 3), ridge.ones(2, 3) * 2
      local b = (one * (y * one) / one - zero):neg()
      return b, one / y, zero - y, y - one, y * zero, y + zero, y * two, y:neg() / ridge.ones(1)
    end, x)
    case('a one that is written to', function(a)
      local one = ridge.ones(2, 3)
      local y = a:exp() * one
      one:add_(1)
      return y:neg(), (a:tanh() * one):neg()
    end, x)
    case('other types and shapes', function(a)
      return (whole / 1):neg(), (row * ridge.ones(2, 3)):neg(), (a:to 'f64' * 1):neg(),
        (a:exp() * ridge.ones(4, 2, 3)):neg(), (whole * 1):neg()
    end, x)
    case('other places in memory', function(a)
      local y = a:exp():t()
      return (y * 1):neg(), (a:t() * 1):neg(), (a:narrow(2, 1, 2) - 0):neg(),
        layer.weight:detach() * 1, (layer.weight:detach() / 1):neg()
    end, x)
    case('what is written over', function(a)
      local y = a:exp()
      local z = y * 1
      y:add_(2)
      local u = a:tanh()
      u:mul_(1)
      local v = a:sin()
      local w = v * 1
      w:add_(3)
      return z, u, v + w
    end, x)
    case('results, twice', function(a)
      local y = a:exp()
      return y, y * 1, a * 1, (a * 1) - 0
    end, x)
    case('under autocast', function(a)
      local y = a:exp()
      return ridge.autocast('bf16', function() return (y * 1):neg(), (y:to 'bf16' * 1):neg() end)
    end, x)
    case('of what is computed again', function(a)
      local y = ridge.recompute(function(b) return (b * 1):exp() * 1 end, layer(a))
      y:sum():backward()
    end, x)
    case('compounds and their bodies', function(a)
      return (a:softmax(2) * 1):neg(), (deep(a:reshape(2, 1, 3)) * 1):neg()
    end, x)
    approve 'arithmetic_identities'
  end)

  it('folded batch norms', function()
    local case, behind = shown 'batch_norm_folding'
    local x = ridge.randn(2, 3, 5, 5)
    local conv, plain = nn.Conv2d(3, 4, 3, { padding = { 1, 2 } }), nn.Conv2d(4, 4, 3,
      { bias = false, groups = 2 })
    local last = nn.Conv2d(5, 4, 3, { layout = 'nhwc', stride = 2 })
    local norm = nn.BatchNorm(4):eval()
    local bare = nn.BatchNorm(4, { affine = false, eps = 0.25 }):eval()
    local rows = nn.BatchNorm(4, { layout = 'nhwc' }):eval()
    case('with a bias', inferred(function(a)
      local y = conv(a)
      return norm(y)
    end), x)
    case('without', inferred(function(a) return bare(plain(norm(conv(a)):relu())) end), x)
    case('channels last', inferred(function(a) return rows(last(a)):neg() end), x)
    case('over another axis', inferred(function(a)
      return rows(plain(conv(a):narrow(4, 1, 6))), norm(last(a):transpose(2, 4))
    end), ridge.randn(2, 3, 6, 5))
    case('two norms', inferred(function(a) return bare(norm(conv(a))) end), x)
    case('two readers', inferred(function(a)
      local y = conv(a)
      return norm(y), bare(y)
    end), x)
    case('written over', inferred(function(a)
      local y = norm(conv(a))
      y:narrow(2, 1, 1):fill_(2)
      return y:transpose(1, 2), y:relu_()
    end), x)
    case('autocast', inferred(function(a)
      return ridge.autocast('bf16', function() return norm(conv(a)) end),
        norm(ridge.autocast('bf16', conv, a):to 'f32'), ridge.autocast('bf16', norm, conv(a))
    end), x)
    case('other modes', inferred(function(a)
      modes.deterministic = 1
      local y = conv(a)
      modes.deterministic = 0
      return norm(y)
    end), x)
    case('recomputed', function(a)
      ridge.recompute(function(b) return norm(conv(b)) end, a):sum():backward()
    end, x)
    behind('with an activation between', { 'epilogue_fusion' }, inferred(function(a)
      return norm(conv(a):relu()), bare(plain(conv(a)):tanh()):relu()
    end), x)
    approve 'batch_norm_folding'
  end)

  it('epilogues', function()
    local case = shown 'epilogue_fusion'
    local x, w, b = ridge.randn(4, 6), ridge.randn(6, 5), ridge.randn(5)
    local linear, plain = nn.Linear(6, 5), nn.Linear(6, 5, { bias = false })
    local low = nn.LowRankLinear(6, 5, { rank = 2, bias = false })
    case('linear', inferred(function(a)
      local y = plain(a)
      local z = y + b
      return z:gelu(), (b + plain(a)):silu(), linear(a):relu(), (linear(a) + b):tanh(), low(a) + b,
        plain(a):sigmoid()
    end), x)
    case('matmul', inferred(function(a)
      local y = a:matmul(w)
      return (y + b):relu(), a:matmul(w):tanh(), b + a:matmul(w)
    end), x)
    case('matmul of other axes', inferred(function(a)
      local c = a:reshape(2, 2, 6)
      return c:matmul(w) + b, a[1]:matmul(w) + b, a:matmul(w:select(2, 1)):relu(),
        c:matmul(c:transpose(2, 3)):relu(), a:reshape(2, 12):t():matmul(a:reshape(2, 12)):relu()
    end), x)
    case('what is no bias', inferred(function(a)
      return plain(a) + 1, plain(a) + a:narrow(2, 1, 5), plain(a) + a:narrow(2, 1, 1),
        plain(a) + ridge.ones(1), plain(a) + ridge.ones(2, 1, 5), plain(a) - b, plain(a) * b,
        plain(a) + b:to 'f64', plain(a) + ridge.ones(4, 1)
    end), x)
    case('biases of other shapes', inferred(function(a)
      return plain(a) + b:reshape(1, 5), b:reshape(1, 1, 5) + plain(a):reshape(1, 4, 5)
    end), x)
    local conv = nn.Conv2d(3, 4, 3, { bias = false })
    local last = nn.Conv2d(5, 4, 3, { bias = false, layout = 'nhwc' })
    local image = ridge.randn(2, 6, 6, 5)
    local four = ridge.randn(4)
    case('convolutions', inferred(function(a)
      local y = conv(a) + four:reshape(4, 1, 1)
      return y:relu(), (four:reshape(1, 4, 1, 1) + conv(a)):gelu(), conv(a):tanh(),
        (last(image) + four):silu(), last(image):sigmoid()
    end), ridge.randn(2, 3, 6, 5))
    case('biases of other axes', inferred(function(a)
      return conv(a) + four, conv(a) + four:reshape(4, 1), last(image) + four:reshape(4, 1),
        conv(a) + four:reshape(4, 1, 1, 1)
    end), ridge.randn(4, 3, 6, 6))
    case('two readers', inferred(function(a)
      local y, z = plain(a), plain(a)
      return (y + b):relu(), y, z, z:relu(), (plain(a) + b) * 2
    end), x)
    case('writes between', inferred(function(a)
      local c = a * 2
      local y, z = plain(c), plain(a)
      c:add_(1)
      local u = plain(a)
      u:add_(b)
      local v = plain(a)
      v:relu_()
      return y + b, z + b, u:relu(), v
    end), x)
    case('other modes', inferred(function(a)
      local y = plain(a)
      local z = ridge.autocast('bf16', function() return y + b end)
      modes.deterministic = 1
      local u = plain(a)
      modes.deterministic = 0
      return z, u + b, ridge.autocast('bf16', function() return plain(a):relu() end)
    end), x)
    case('training', function(a)
      ridge.recompute(function(c) return (plain(c) + b):gelu() end, a):sum():backward()
      linear(a):gelu():sum():backward()
      linear(a):relu():sum():backward()
    end, x)
    case('what it may view and write', inferred(function(a)
      local y = (plain(a) + b):relu()
      y:narrow(1, 1, 2):fill_(3)
      return y:t()
    end), x)
    case('8 bits', inferred(function(a)
      local i, s = (w:t() * 20):to 'i8', ridge.ones(5)
      return (ridge.scaled_linear((a * 20):to 'i8', i, 0.5, s) + b):relu()
    end), x)
    approve 'epilogue_fusion'
  end)

  it('channels last', function()
    local case, behind = shown 'channels_last'
    local x = ridge.randn(2, 32, 8, 8)
    local function conv(opts, a, b)
      opts.padding = opts.padding or 1
      return nn.Conv2d(a or 32, b or 32, 3, opts)
    end
    local a, b, c = conv {}, conv { stride = 2 }, conv { bias = false }
    local last = conv({ layout = 'nhwc' }, 8, 8)
    case('a chain', inferred(function(y)
      local z = a(y):relu()
      z = z:max_pool2d(2)
      return c(z):gelu():avg_pool2d({ 2, 1 }, { stride = 1 })
    end), x)
    case('means', inferred(function(y)
      local z = c(a(y))
      return z:mean { 3, 4 }, z:sum { 3, 4 }, z:max { 3, 4 }, z:min { 3, 4 }
    end), x)
    case('reductions of other axes', inferred(function(y)
      local z = c(a(a(y)))
      return z:mean { 2, 3 }, z:sum({ 3, 4 }, true), z:max(3), z:min(4), z:prod(3), z:sum()
    end), x)
    case('sums, and a second reader', inferred(function(y)
      local z = a(y)
      local u = c(z) + z
      return a(u), u:transpose(3, 4) * 2
    end), x)
    case('two images that come in', inferred(function(y, w)
      return a(c(y) + c(c(w))) + y
    end), x, ridge.randn(2, 32, 8, 8))
    case('two regions', inferred(function(y)
      local z = c(a(y)):transpose(3, 4)
      local u = c(a(z:contiguous()))
      return u, c(y)
    end), x)
    case('numbers and other shapes', inferred(function(y)
      local z = a(c(y)) * 2
      return c(c(z + 1)) * z:mean({ 3, 4 }):reshape(2, 32, 1, 1)
    end), x)
    case('other convolutions', inferred(function(y)
      return c(y):max_pool2d(2, { layout = 'nhwc' }), last(last(y))
    end), x)
    local deep, wide, thin = conv({ groups = 32 }), conv({ groups = 2 }), conv({ groups = 4 })
    local more, less = conv({ groups = 32 }, 32, 64), nn.Conv2d(32, 16, 1)
    case('groups', inferred(function(y)
      return deep(deep(deep(y))), wide(wide(wide(y))), thin(thin(thin(y))), more(deep(deep(y))),
        less(wide(y))
    end), x)
    case('types', inferred(function(y)
      return ridge.autocast('bf16', function() return a(c(c(y))) end), c(c(y):to('bf16'):to 'f32')
    end), x)
    case('writes', inferred(function(y)
      local z = c(a(y))
      local u = c(z)
      z:mul_(2)
      u:relu_()
      return c(u), z, c(c(z))
    end), x)
    case('training', function(y)
      local z = a(c(y)):relu():max_pool2d(2)
      z:sum():backward()
      ridge.recompute(function(u) return c(c(u):relu()) end, y):sum():backward()
    end, x)
    behind('fused and shared', { 'epilogue_fusion', 'common_subexpression_elimination',
      'dead_code_elimination' }, inferred(function(y)
      local z = c(y):relu()
      return a(c(y):relu()):silu() + c(z), b(z)
    end), x)
    approve 'channels_last'
  end)

  it('common subexpressions', function()
    local case = shown 'common_subexpression_elimination'
    local x = ridge.randn(4, 6)
    local layer = nn.Linear(6, 6)
    case('chains', function(a)
      local y = (a * 2):exp()
      local z = (a * 2):exp()
      local u, v = y:t():neg(), z:t():neg()
      return u + v, y:narrow(1, 1, 2) + z:narrow(1, 2, 2), z:relu() + y:tanh()
    end, x)
    case('arguments, inputs and types', function(a)
      local b = a * 3
      return a * 2 + a * 3 + a * 2 + b * 2, a:sum(1) + a:sum(2):sum(),
        a:to 'f64' + a:to 'bf16':to 'f64' + a:to 'f64', a:narrow(1, 1, 3) + a:narrow(1, 2, 3),
        a - b, b - a
    end, x)
    case('results', function(a) return a:exp(), a:exp(), a:exp():neg() end, x)
    case('views of what came in', function(a)
      local y, z = a:t():t(), a:t():t()
      return y + z, a:t():neg() + a:t():exp()
    end, x)
    case('writes', function(a)
      local y, z = a:exp(), a:exp()
      z:add_(1)
      local u = a:sin()
      local v = u:narrow(1, 1, 2):neg()
      u:narrow(1, 2, 2):fill_(0)
      return y + z, v + u:narrow(1, 1, 2):neg(), a:exp()
    end, x)
    case('draws, and what is recomputed', function(a)
      local y = a:dropout(0.5) + a:dropout(0.5)
      ridge.recompute(function(b) return layer(b):tanh() end, a):sum():backward()
      return y, layer(a):tanh()
    end, x)
    case('compounds', function(a)
      return a:softmax(2) + a:softmax(2), a:neg(), (a - a:max(2, true)):exp()
    end, x)
    case('modes', inferred(function(a)
      local y = layer(a)
      local z = ridge.autocast('bf16', layer, a):to 'f32'
      modes.deterministic = 1
      local u = layer(a)
      modes.deterministic = 0
      return y + z + u + layer(a)
    end), x)
    approve 'common_subexpression_elimination'
  end)

  it('dead code', function()
    local case = shown 'dead_code_elimination'
    local x, kept = ridge.randn(4, 6), ridge.randn(4, 6)
    local layer = nn.Linear(6, 6)
    local optimizer = ridge.optim.Adam(layer, { lr = 0.1 })
    case('chains and views', function(a)
      local _ = a:exp():neg()
      local y = a:sin()
      _ = y:t():tanh()
      return y:narrow(1, 1, 2)
    end, x)
    case('writes', function(a)
      local y, z, u = a:exp(), a:neg(), a:tanh()
      y:t():add_(1)
      z:narrow(1, 1, 1):fill_(0)
      kept:narrow(2, 1, 1):copy_(u:narrow(2, 1, 1))
      return y
    end, x)
    case('draws, compounds, steps', function(a)
      local _ = { a:exp():dropout(0.5), a:softmax(2), nn.LayerNorm(6)(a) }
      layer(a):tanh():sum():backward()
      optimizer:step()
      return a:softmax(1)
    end, x)
    approve 'dead_code_elimination'
  end)

  it('elementwise fusion', function()
    local case, behind = shown 'elementwise_fusion'
    local x, y, row = ridge.randn(4, 6), ridge.randn(4, 6), ridge.randn(6)
    local column, one = ridge.randn(4, 1), ridge.randn(1)
    local layer = nn.Linear(6, 6)
    case('chains', function(a)
      local b = (a * 2):exp()
      local c = b - y
      return (c / row):tanh(), b, row / c - column * one
    end, x)
    case('numbers and casts', function(a)
      local b = (3 / a):exp():to 'bf16'
      return (1 - b):to 'f32' * 2, b, (2 ^ a):to('f16'):to 'f32'
    end, x)
    case('writes in place', function(a)
      local b = a:exp()
      b:mul_(2)
      b:add_(row)
      local c = b:tanh()
      b:neg_()
      y:mul_(0.5)
      y:add_(c)
      return b, c * b
    end, x)
    case('through views', function(a)
      local b = a:exp()
      local c = b:t():neg()
      b:narrow(1, 1, 2):add_(1)
      local d = a:reshape(6, 4)
      d:reshape(4, 6):relu_()
      return b:sin(), c:tanh(), d:exp():neg(), a:narrow(1, 2, 2):exp():neg(), a:t():exp():neg()
    end, x * 1)
    case('other work between', function(a)
      local b = a * 2
      local s = a:sum(1)
      local c = b:exp() * 3
      local p = a:matmul(y:t())
      return c:tanh(), s, p, (c + y):neg(), a:sin()
    end, x)
    case('other shapes, types and modes', function(a)
      local b = ridge.autocast('bf16', function() return a:exp():neg() end)
      modes.deterministic = 1
      local c = a:tanh()
      modes.deterministic = 0
      return b, c, c:sin(), row:exp(), row:neg(), a:to('f64'):neg():exp(),
        (a:reshape(1, 4, 6) + 1):neg()
    end, x)
    case('training', function(a)
      local b = layer(a)
      ridge.recompute(function(c) return (c:gelu() * 2):tanh() end, b):sum():backward()
      layer(a):silu():sigmoid():square():sum():backward()
    end, x)
    case('compounds', function(a)
      return (a:softmax(2):exp() * 2):neg(), a:gelu():softmax(1):exp(), a:mean(2, true)
    end, x)
    behind('behind others', { 'common_subexpression_elimination', 'dead_code_elimination' },
      function(a)
        local b, c = (a * 2):exp(), (a * 2):exp()
        local _ = b:sin()
        return b + c:neg(), c:tanh() * column
      end, x)
    approve 'elementwise_fusion'
  end)
end)
