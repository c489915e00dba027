-- SPDX-License-Identifier: MIT
-- Convolutions and what stands between them with channels last: what is changed and what is not,
-- results, and random nets with views, writes in place and second readers.
local ridge = require 'ridge'
local nn = ridge.nn

local MANY = dofile('tests/op/due.lua').setting('RIDGE_RANDOM_GRAPHS', 60)
local LAST = { 'channels_last' }
local ALL = {}
for _, pass in ipairs(ridge.graph.passes()) do
  if pass.does then ALL[#ALL + 1] = pass.name end
end

local function ops(graph)
  local list = {}
  for i, node in ipairs(graph:nodes()) do list[i] = node.op end
  return table.concat(list, ' ')
end

-- How many nodes of a kind have channels last.
local function n_last(graph, op)
  local n = 0
  for _, node in ipairs(graph:nodes()) do
    if node.op == op and node.args.layout == 'nhwc' then n = n + 1 end
  end
  return n
end

-- The largest difference, by the largest result.
local function distance(a, b)
  return (a - b):abs():max():item() / math.max(b:abs():max():item(), 1e-3)
end

local function recorded(f, x) return ridge.inference(function() return ridge.graph(f, x) end) end

-- Behind the pass a plan of f(x) gives what f gives, for other numbers in x, too.
local function gives_the_same(f, x, names, most)
  local graph = recorded(f, x):optimize(names or LAST):check()
  local plan = graph:plan()
  for _ = 1, 2 do
    x:copy_(ridge.randn(unpack(x.shape)))
    local want, got = { ridge.inference(f, x) }, { plan:run() }
    for i, y in ipairs(want) do
      local d = distance(got[i], y)
      assert.is_true(d < (most or 1e-5), ('result %d: off by %g\n%s'):format(i, d, tostring(graph)))
    end
  end
  return graph
end

local function conv(c_in, c_out, kernel, opts)
  return nn.Conv2d(c_in, c_out, kernel or 3, opts or { padding = 1 })
end

describe('channels last', function()
  it('is one copy in and one out around a chain', function()
    ridge.seed(1)
    local net = nn.Sequential(conv(16, 32), nn.ReLU(), nn.MaxPool2d(2), conv(32, 16), nn.Tanh(),
      nn.AvgPool2d(2, { stride = 1 }), conv(16, 16))
    local graph = gives_the_same(net, ridge.randn(2, 16, 12, 12))
    assert.equal('permute copy conv2d relu max_pool2d conv2d tanh avg_pool2d conv2d permute copy',
      ops(graph))
    assert.equal(3, n_last(graph, 'conv2d'))
    assert.equal(1, n_last(graph, 'max_pool2d'))
    assert.equal(1, n_last(graph, 'avg_pool2d'))
  end)

  it('goes through sums and ends in means', function()
    ridge.seed(2)
    local a, b, c = conv(16, 16), conv(16, 16), conv(16, 24, 1, { stride = 2 })
    for _, mean in ipairs { 'mean', 'sum', 'max', 'min' } do
      local graph = gives_the_same(function(x)
        local y = a(x):relu()
        y = (b(y) + y):minimum(6)
        y = c(y)
        return y[mean](y, { 3, 4 })
      end, ridge.randn(3, 16, 9, 9))
      assert.equal('permute copy conv2d relu conv2d add minimum conv2d ' .. mean, ops(graph))
    end
  end)

  it('keeps rows and columns of one for a mean that keeps its axes', function()
    local a, b = conv(16, 16), conv(16, 24)
    local graph = gives_the_same(function(x) return b(a(x):relu()):mean({ 3, 4 }, true) end,
      ridge.randn(3, 16, 9, 9))
    assert.equal('permute copy conv2d relu conv2d mean permute copy', ops(graph))
  end)

  it('goes through concatenations, along whatever axis', function()
    ridge.seed(7)
    local a, b, c, d = conv(16, 16, 1, {}), conv(16, 24), conv(40, 16), conv(16, 16)
    local graph = gives_the_same(function(x)
      local y = a(x):relu()
      return c(ridge.concat({ y, b(y):relu() }, 2):max_pool2d(2))
    end, ridge.randn(2, 16, 8, 8))
    assert.equal('permute copy conv2d relu conv2d relu concat max_pool2d conv2d permute copy',
      ops(graph))
    for axis = 1, 4 do
      graph = gives_the_same(function(x)
        local y = a(x)
        local z = ridge.concat({ y:relu(), d(y), y }, axis)
        return axis == 2 and z:mean { 3, 4 } or d(z)
      end, ridge.randn(2, 16, 8, 8))
      assert.equal('permute copy conv2d relu conv2d concat '
        .. (axis == 2 and 'mean' or 'conv2d permute copy'), ops(graph))
    end
    graph = gives_the_same(function(x) return c(ridge.concat({ a(x), b(x) }, 2)), x end,
      ridge.randn(2, 16, 8, 8))
    assert.equal(3, n_last(graph, 'conv2d'))
  end)

  it('leaves concatenations with what comes from elsewhere', function()
    local a, c = conv(16, 16), conv(32, 16)
    local graph = gives_the_same(function(x)
      return c(ridge.concat({ a(a(x)), x }, 2))
    end, ridge.randn(2, 16, 8, 8))
    assert.equal('permute copy conv2d conv2d permute copy concat conv2d', ops(graph))
  end)

  it('leaves concatenations that are read with channels first', function()
    ridge.seed(9)
    local a, b, c, scale = conv(16, 16), conv(16, 16), conv(32, 16), ridge.randn(32, 1, 1)
    local function shape_of(f) -- of what is joined
      for _, node in ipairs(gives_the_same(f, ridge.randn(2, 16, 8, 8)):nodes()) do
        if node.op == 'concat' then return node.outputs[1].shape end
      end
    end
    local function joined(x)
      local y = a(x):relu()
      return ridge.concat({ y, b(y):relu() }, 2)
    end
    assert.same({ 2, 32, 8, 8 }, shape_of(function(x) return c(joined(x) * scale) end))
    assert.is_table(shape_of(function(x)
      local n = ridge.concat({ joined(x):relu(), a(x) }, 2):narrow(2, 1, 32)
      return c((n * scale):relu())
    end))
    assert.is_table(shape_of(function(x)
      local y = joined(x):reshape(2, 4, 8, 8, 8):permute(1, 3, 2, 4, 5):reshape(2, 32, 8, 8)
      return c(y), y * scale, joined(x) * scale
    end))
    assert.same({ 2, 8, 8, 32 }, shape_of(function(x) return c(joined(x)) end))
  end)

  it('deals channels out among groups', function()
    ridge.seed(8)
    local first, last_one = conv(16, 48, 1, {}), conv(48, 48, 3, { groups = 48, padding = 1 })
    local shuffled = 'permute copy conv2d view permute copy view conv2d conv2d permute copy'
    for _, groups in ipairs { 1, 2, 3, 4, 6, 16, 48 } do
      local graph = gives_the_same(function(x)
        local y = first(x)
        local h, w = y:size(3), y:size(4)
        y = y:reshape(x:size(1), groups, 48 / groups, h, w):permute(1, 3, 2, 4, 5)
        return last_one(last_one(y:reshape(x:size(1), 48, h, w)))
      end, ridge.randn(2, 16, 5, 7))
      -- one group, or groups of one: strides make a view of it
      if groups > 1 and groups < 48 then assert.equal(shuffled, ops(graph), groups) end
    end
    local function not_so(f, why)
      local graph = gives_the_same(f, ridge.randn(2, 16, 8, 8))
      assert.is_nil(ops(graph):find('view permute copy view', 1, true), why)
    end
    local function dealt(y, order, second)
      local n = y:size(1)
      return y:reshape(n, 4, 12, 8, 8):permute(unpack(order)):reshape(unpack(second))
    end
    not_so(function(x) return last_one(dealt(first(x), { 1, 3, 2, 5, 4 }, { 2, 48, 8, 8 })) end,
      'rows and columns exchanged')
    not_so(function(x) return last_one(dealt(first(x), { 1, 3, 4, 5, 2 }, { 2, 48, 8, 8 })) end,
      'another order')
    not_so(function(x)
      return dealt(first(x), { 1, 3, 2, 4, 5 }, { 2, 24, 16, 8 }):max_pool2d(2)
    end, 'another shape behind it')
    not_so(function(x)
      local y = first(x):reshape(2, 4, 12, 8, 8)
      return last_one(y:permute(1, 3, 2, 4, 5):reshape(2, 48, 8, 8)), y
    end, 'what lies between is read')
    not_so(function(x)
      local y = first(x):reshape(2, 4, 12, 8, 8):permute(1, 3, 2, 4, 5)
      return last_one(y:reshape(2, 48, 8, 8)), y:relu()
    end, 'the exchanged axes are read')
    gives_the_same(function(x)
      local y = dealt(first(x), { 1, 3, 2, 4, 5 }, { 2, 48, 8, 8 })
      local z = last_one(y)
      return z, y, y:relu_()
    end, ridge.randn(2, 16, 8, 8))
  end)

  it('leaves an image that is the weight of a convolution as it is read', function()
    ridge.seed(10)
    local a, y = conv(16, 16), ridge.randn(2, 16, 12, 12)
    gives_the_same(function(x) return a(y:conv2d(a(a(x)), { padding = 1 })) end,
      ridge.randn(16, 16, 3, 3))
    gives_the_same(function(x)
      local z = a(a(x))
      return z:conv2d(z, { padding = 1 })
    end, ridge.randn(16, 16, 3, 3))
  end)

  it('brings nothing in for a sum', function()
    local a, b = conv(16, 16), conv(16, 16)
    local graph = gives_the_same(function(x) return b(a(x:relu())) + x end,
      ridge.randn(2, 16, 8, 8))
    assert.equal('relu permute copy conv2d conv2d permute copy add', ops(graph))
  end)

  it('leaves what gains nothing, or is faster as it is', function()
    local function stays(f, x, why)
      local before = ops(recorded(f, x))
      assert.equal(before, ops(gives_the_same(f, x)), why)
    end
    stays(conv(16, 16), ridge.randn(1, 16, 8, 8), 'one alone')
    stays(nn.Sequential(conv(1, 6), nn.ReLU(), conv(6, 12)), ridge.randn(2, 1, 12, 12), 'tiles')
    local small = { groups = 4, stride = 2, padding = 1 }
    stays(nn.Sequential(conv(32, 32, 3, small), nn.ReLU(), conv(32, 32, 3, small)),
      ridge.randn(1, 32, 8, 8), 'small groups')
    stays(nn.Sequential(conv(16, 16), nn.ReLU(), conv(16, 16)):to 'f64',
      ridge.randn(1, 16, 8, 8):to 'f64', 'f64')
    local a, b = conv(16, 16), conv(16, 16)
    stays(function(x)
      local y = a(x)
      return b(y), y:relu():transpose(3, 4):contiguous(), y
    end, ridge.randn(1, 16, 8, 8), 'as much would be copied')
    stays(function(x) return b(a(x):mul_(2)) end, ridge.randn(1, 16, 8, 8), 'a write in place')
  end)

  it('hands out what others read, and lets it be written to', function()
    ridge.seed(3)
    local a, b, c = conv(16, 16), conv(16, 16), conv(16, 16)
    local function f(x)
      local y = c(b(a(x):relu()):relu())
      local z = y:transpose(1, 2) * 2
      return z, y
    end
    local graph = gives_the_same(f, ridge.randn(2, 16, 8, 8))
    assert.equal(3, n_last(graph, 'conv2d'))
    local x = ridge.randn(2, 16, 8, 8)
    local plan = recorded(f, x):optimize(LAST):plan()
    local _, y = plan:run()
    y:fill_(7)
    assert.is_true(distance(select(2, plan:run()), select(2, ridge.inference(f, x))) < 1e-5)
  end)

  it('gives the same for odd channels, strides, dilations, groups and batches', function()
    ridge.seed(4)
    local n = 0
    for _, batch in ipairs { 1, 3 } do
      for _, c in ipairs { 1, 3, 17, 33 } do
        for _, opts in ipairs { { padding = 1 }, { stride = 2, padding = 1 },
            { stride = { 1, 2 }, padding = { 2, 0, 1, 3 } }, { dilation = 2, padding = 2 },
            { groups = c, padding = 1 }, { groups = c, stride = 2, padding = 1 } } do
          local out = opts.groups or 20
          local net = nn.Sequential(conv(c, 32, 1, {}), conv(32, c), nn.ReLU(),
            conv(c, out, 3, opts), nn.SiLU(), conv(out, 33, 1, {}))
          local graph = gives_the_same(net, ridge.randn(batch, c, 11, 13))
          n = n + n_last(graph, 'conv2d')
        end
      end
    end
    assert.is_true(n > 100, n)
  end)

  it('reads bf16, and f32 under autocast', function()
    ridge.seed(5)
    local net = nn.Sequential(conv(16, 32), nn.ReLU(), nn.MaxPool2d(2), conv(32, 16))
    local x = ridge.randn(2, 16, 8, 8)
    local function cast(y) return ridge.autocast('bf16', net, y) end
    assert.equal(2, n_last(gives_the_same(cast, x, LAST, 0.02), 'conv2d'))
    net:to 'bf16'
    local graph = recorded(net, x:to 'bf16'):optimize(LAST):check()
    assert.equal(2, n_last(graph, 'conv2d'))
    local want = ridge.inference(net, x:to 'bf16'):to 'f32'
    assert.is_true(distance(graph:plan():run():to 'f32', want) < 0.02)
  end)

  it('computes bf16 in f32 where oneDNN has no instructions for it', function()
    local sums = {}
    for i, isa in ipairs { 'ALL', 'AVX2' } do
      local pipe = assert(io.popen(('ONEDNN_MAX_CPU_ISA=%s ./ridge -e \'ridge.seed(1); local net = '
        .. 'ridge.nn.Conv2d(16, 16, 3, {layout = "nhwc", seed = 1}):to "bf16"; local x = '
        .. 'ridge.randn(1, 9, 9, 16):to "bf16"; print(net(x):to "f32":abs():sum():item())\' 2>&1')
        :format(isa)))
      local text = pipe:read '*a'
      pipe:close()
      sums[i] = assert(tonumber(text), text)
    end
    assert.is_true(math.abs(sums[1] / sums[2] - 1) < 1e-2, table.concat(sums, ' '))
  end)

  it('does nothing to gradients', function()
    ridge.seed(6)
    local net = nn.Sequential(conv(16, 32), nn.ReLU(), conv(32, 16), nn.ReLU(), conv(16, 16))
    local x = ridge.randn(2, 16, 8, 8)
    local function step(y)
      for _, p in ipairs(net:parameters()) do p.tensor:zero_grad() end
      net(y):square():sum():backward()
    end
    step(x)
    local want = {}
    for i, p in ipairs(net:parameters()) do want[i] = p.tensor.grad:clone() end
    local plan = ridge.graph(step, x):optimize(LAST):check():plan()
    for _ = 1, 2 do
      plan:run()
      for i, p in ipairs(net:parameters()) do
        assert.is_true(distance(p.tensor.grad, want[i]) < 1e-4, p.name)
      end
    end
  end)

  it('ends before reductions over other axes than rows and columns', function()
    ridge.seed(7)
    local a, b = conv(16, 16), conv(16, 16)
    for _, axes in ipairs { { 3 }, { 4 }, { 2 }, { 1 }, { 2, 3 }, { 1, 3, 4 }, { 3, 4 } } do
      local graph = gives_the_same(function(x)
        local y = b(a(x):relu())
        return y:sum(axes), y:mean(axes, true), y:relu():max(axes)
      end, ridge.randn(2, 16, 8, 9))
      assert.equal(2, n_last(graph, 'conv2d'))
    end
  end)

  it('is no exact pass', function()
    for _, pass in ipairs(ridge.graph.passes()) do
      if pass.name == LAST[1] then return assert.equal('reassociates', pass.exactness) end
    end
    error 'it is not there'
  end)
end)

-- A function of images of 16 channels drawn at random.
local function random_function(seed, convs, norm, both)
  local draws = {}
  math.randomseed(seed)
  for i = 1, 5 + math.random(8) do
    draws[i] = { math.random(15), math.random(1000), math.random(1000), math.random(#convs) }
  end
  return function(x)
    local made, own = { x }, {}
    for _, draw in ipairs(draws) do
      local kind = draw[1]
      local y, other = made[draw[2] % #made + 1], made[draw[3] % #made + 1]
      local z
      if kind <= 5 then
        z = convs[draw[4]](y)
      elseif kind == 6 then
        z = norm(convs[draw[4]](y)):relu()
      elseif kind == 7 then
        z = y + other
      elseif kind == 8 then
        z = y:relu():max_pool2d(3, { stride = 1, padding = 1 })
      elseif kind == 9 then
        z = y:transpose(3, 4):tanh()
      elseif kind == 10 and own[y] then
        z = y:mul_(0.5)
      elseif kind == 11 and own[y] then
        y:narrow(2, 3, 5):fill_(0.25)
        z = y:sigmoid()
      elseif kind == 13 then
        z = both(ridge.concat({ y, other }, 2))
      elseif kind == 14 then
        local n, _, h, w = unpack(y.shape)
        z = y:reshape(n, 4, 4, h, w):permute(1, 3, 2, 4, 5):reshape(n, 16, h, w)
      else
        z = y * y:mean({ 3, 4 }):reshape(x:size(1), 16, 1, 1)
      end
      made[#made + 1] = z
      own[z] = true
    end
    return made[#made], made[math.max(2, #made - 1)] * 1, made[math.max(2, #made - 2)]:mean { 3, 4 }
  end
end

describe('channels last', function()
  it('changes random nets by no more than rounding', function()
    local n = 0
    for seed = 1, MANY do
      ridge.seed(seed)
      local convs = { conv(16, 16), conv(16, 16, 1, {}),
        conv(16, 16, 3, { groups = 16, padding = 1 }),
        conv(16, 16, 3, { dilation = 2, padding = 2, bias = false }) }
      local norm = nn.BatchNorm(16):eval()
      for name, x in pairs(norm:state()) do
        x:detach():copy_(ridge.rand(unpack(x.shape)) * 0.5 + (name:find 'var' and 0.75 or 0.25))
      end
      local f = random_function(seed, convs, norm, conv(32, 16))
      local x = ridge.randn(2, 16, 6, 6)
      for _, names in ipairs { LAST, ALL } do
        n = n + n_last(gives_the_same(f, x, names, 1e-4), 'conv2d')
      end
    end
    assert.is_true(n > MANY, n)
  end)
end)
