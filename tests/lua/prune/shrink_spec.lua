-- SPDX-License-Identifier: MIT
-- Smaller layers: along the graph, with the results of the net in which the same units add nothing.
local class = require('ridge.class').class
local ridge = require 'ridge'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function apart(a, b) return (a - b):abs():max():item() end

local function shrink(net, x, opts)
  opts = opts or { share = 0.5 }
  opts.time = false
  return ridge.prune.shrink(net, x, opts)
end

local function reason(report, name)
  for _, layer in ipairs(report.left) do
    if layer.name == name then return layer.why end
  end
end

-- The results of the net in which places along the inputs of layers add nothing.
local function without(net, x, gone)
  local c = net:clone():eval()
  for name, list in pairs(gone) do
    local layer = c
    for part in name:gmatch '[^.]+' do layer = layer[tonumber(part) or part] end
    for _, i in ipairs(list) do
      ridge.inference(function() layer.weight:narrow(2, i, 1):fill_(0) end)
    end
  end
  return ridge.inference(c, x)
end

-- Rows of a weight get a magnitude, so that one knows which go.
local function weigh(layer, factors)
  ridge.inference(function()
    for i, factor in ipairs(factors) do
      layer.weight:narrow(1, i, 1):mul_(factor)
    end
  end)
end

describe('prune.shrink', function()
  before_each(function() ridge.seed(5) end)

  it('takes the rows of one layer and the columns of the next', function()
    local net = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)):eval()
    weigh(net[1], { 10, 0.1, 5, 0.2 })
    local x = ridge.randn(7, 5)
    local small, report = shrink(net, x)
    assert.same({ 2, 5 }, small[1].weight:size())
    assert.same({ 3, 2 }, small[3].weight:size())
    assert.same({ 2, 2 }, { small[1].n_out, small[3].n_in })
    assert.is_true(apart(small(x), without(net, x, { ['3'] = { 2, 4 } })) < 1e-5)
    assert.same({ 4, 2 }, { report.rows[1].before, report.rows[1].after })
    assert.same({ before = 39, after = 21 }, report.parameters)
    assert.equal('it is what the net answers', reason(report, '3'))
    assert.same({ 4, 5 }, net[1].weight:size())
    assert.equal(4, net[1].n_out)
  end)

  it('lets what meets in a sum go together, and parts of a concatenation alone', function()
    local Two = class('Two', nn.Module)
    function Two:init()
      nn.Module.init(self)
      self:child('a', nn.Linear(4, 6))
      self:child('b', nn.Linear(4, 6))
      self:child('c', nn.Linear(4, 4))
      self:child('d', nn.Linear(10, 2))
    end
    function Two:forward(x)
      local c = self.children
      local sum = c[1].module(x) + c[2].module(x)
      return c[4].module(ridge.concat({ sum:relu(), c[3].module(x):relu() }, 2))
    end
    local net = Two():eval()
    local a, b, c, d = net.children[1].module, net.children[2].module, net.children[3].module, 4
    weigh(a, { 9, 9, 9, 0, 0, 0 })
    weigh(b, { 0, 0.1, 9, 0.2, 9, 9 })
    weigh(c, { 0, 1, 0, 1 })
    local x = ridge.randn(5, 4)
    local small, report = shrink(net, x)
    local function size(i) return small.children[i].module.weight:size() end
    assert.same({ { 3, 4 }, { 3, 4 }, { 2, 4 }, { 2, 5 } }, { size(1), size(2), size(3), size(d) })
    -- 4 of the sum has least, then 1, 5, 6 alike but for their draws
    assert.equal(2, #report.rows)
    assert.same({ 'a', 'b' }, report.rows[1].from)
    assert.same({ 'c' }, report.rows[2].from)
    local kept = {}
    for i = 1, 6 do
      for k = 1, 3 do
        if apart(small.children[1].module.weight:narrow(1, k, 1), a.weight:narrow(1, i, 1)) == 0
          and apart(small.children[2].module.weight:narrow(1, k, 1), b.weight:narrow(1, i, 1)) == 0
        then kept[i] = true end
      end
    end
    local whole = net:clone():eval()
    ridge.inference(function()
      for i = 1, 6 do
        if not kept[i] then whole.children[4].module.weight:narrow(2, i, 1):fill_(0) end
      end
      for _, i in ipairs { 7, 9 } do whole.children[4].module.weight:narrow(2, i, 1):fill_(0) end
    end)
    assert.is_true(kept[3] and not kept[4])
    assert.is_true(apart(small(x), whole(x)) < 1e-5)
  end)

  it('follows batch normalisation, depthwise convolution, pooling and flattening', function()
    local net = nn.Sequential(nn.Conv2d(2, 6, 3, { padding = 1 }), nn.BatchNorm(6), nn.ReLU(),
      nn.Conv2d(6, 6, 3, { groups = 6, padding = 1 }), nn.MaxPool2d(2), nn.Flatten(),
      nn.Linear(6 * 9, 4))
    for _ = 1, 3 do net(ridge.randn(4, 2, 6, 6)) end
    net:eval()
    weigh(net[1], { 1, 0, 1, 0, 0, 1 })
    weigh(net[4], { 1, 0, 1, 0, 0, 1 })
    local x = ridge.randn(3, 2, 6, 6)
    local small = shrink(net, x)
    assert.same({ 3, 1, 3, 3 }, small[4].weight:size())
    assert.equal(3, small[4].options.groups)
    assert.equal(6, net[4].options.groups)
    assert.same({ 3, 3 }, { small[2].n, small[2].running_var:size(1) })
    assert.same({ 4, 27 }, small[7].weight:size())
    local gone = {}
    for _, channel in ipairs { 2, 4, 5 } do
      for i = 1, 9 do gone[#gone + 1] = (channel - 1) * 9 + i end
    end
    assert.is_true(apart(small(x), without(net, x, { ['7'] = gone })) < 1e-5)
    small:train()
    small(x):sum():backward()
    assert.same({ 3, 1, 3, 3 }, small[4].weight.grad:size())
  end)

  it('follows what is normalised along another axis', function()
    local net = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm(4), nn.ReLU(), nn.Linear(6, 3))
    for _ = 1, 3 do net(ridge.randn(9, 4, 5)) end
    net:eval()
    weigh(net[1], { 1, 0, 1, 0, 0, 1 })
    local x = ridge.randn(7, 4, 5)
    local small = shrink(net, x)
    assert.same({ { 3, 5 }, { 3, 3 }, 4 }, { small[1].weight:size(), small[4].weight:size(),
      small[2].n })
    assert.is_true(apart(small(x), without(net, x, { ['4'] = { 2, 4, 5 } })) < 1e-5)
  end)

  it('keeps groups alike, and takes groups that are normalised as a whole', function()
    local net = nn.Sequential(nn.Conv2d(2, 8, 1), nn.ReLU(), nn.Conv2d(8, 4, 1, { groups = 2 }),
      nn.ReLU(), nn.Conv2d(4, 12, 1), nn.GroupNorm(4, 12), nn.ReLU(), nn.Conv2d(12, 3, 1)):eval()
    local x = ridge.randn(2, 2, 4, 4)
    local small = shrink(net, x)
    assert.same({ 4, 2, 1, 1 }, small[1].weight:size())
    assert.same({ 2, 2, 1, 1 }, small[3].weight:size())
    assert.equal(2, small[3].options.groups)
    assert.same({ 2, 6 }, { small[6].groups, small[6].n })
    assert.same({ 3, 6, 1, 1 }, small[8].weight:size())
    -- of groups {1 2 3} .. {10 11 12} two stay whole
    local stays = 0
    for g = 0, 3 do
      for k = 0, 1 do
        local kept, was = small[8].weight:narrow(2, 3 * k + 1, 3),
          net[8].weight:narrow(2, 3 * g + 1, 3)
        if apart(kept, was) == 0 then stays = stays + 1 end
      end
    end
    assert.equal(2, stays)
  end)

  it('takes heads of attention as a whole, and leaves what is normalised', function()
    local net = nn.Sequential(nn.Linear(5, 12), nn.TransformerBlock(12, { heads = 3 }),
      nn.Linear(12, 2)):eval()
    local x = ridge.randn(2, 6, 5)
    local qkv = net[2].attention.qkv
    ridge.inference(function() -- the second head is worth nothing
      for part = 0, 2 do qkv.weight:narrow(1, part * 12 + 5, 4):mul_(1e-3) end
    end)
    local small, report = shrink(net, x, { share = 1 / 3 })
    assert.equal(2, small[2].attention.heads)
    assert.equal(3, net[2].attention.of.heads)
    assert.same({ 24, 12 }, small[2].attention.qkv.weight:size())
    assert.same({ 32, 12 }, small[2].up.weight:size())
    assert.truthy(reason(report, '1'):find('layer_norm', 1, true))
    assert.truthy(tostring(report):find('1 (nn.Linear) stays whole: layer_norm (2.norm1)', 1, true))
    local only = shrink(net, x, { share = 1 / 3, skip = { '2.up' } })
    assert.is_true(apart(only(x), without(net, x, { ['2.attention.out'] = { 5, 6, 7, 8 } })) < 1e-5)
  end)

  it('takes units that only meet each other, whose sums no parameter can silence', function()
    local Scores = class('Scores', nn.Module)
    function Scores:init()
      nn.Module.init(self)
      self:child('q', nn.Linear(5, 4))
      self:child('k', nn.Linear(5, 4))
    end
    function Scores:forward(x)
      local c = self.children
      return c[1].module(x):matmul(c[2].module(x):transpose(1, 2))
    end
    local net = Scores():eval()
    local q, k = net.children[1].module, net.children[2].module
    weigh(q, { 9, 0.1, 7, 0.2 })
    weigh(k, { 9, 0.1, 7, 0.2 })
    local x = ridge.randn(6, 5)
    local small = shrink(net, x)
    assert.same({ 2, 5 }, small.children[1].module.weight:size())
    assert.same({ 2, 5 }, small.children[2].module.weight:size())
    local wanted = ridge.inference(function()
      local a, b = q(x), k(x)
      local function stay(y) return ridge.concat({ y:narrow(2, 1, 1), y:narrow(2, 3, 1) }, 2) end
      return stay(a):matmul(stay(b):transpose(1, 2))
    end)
    assert.is_true(apart(ridge.inference(small, x), wanted) < 1e-4)
  end)

  it('takes products apart that are side by side, also where one is for all', function()
    local ones = ridge.ones(3)
    local function column(y) return y:transpose(1, 2):reshape(-1, 3, 1) end
    local function row(y) return y:transpose(1, 2):reshape(-1, 1, 3) end
    for _, product in ipairs { -- of a column and a row for each unit
      function(a, b, x) return column(a(x)):matmul(row(b(x))) end,
      function(a, _, x) return column(a(x)):matmul(ones:reshape(1, 1, 3)) end,
      function(a, _, x) return column(a(x)):matmul(ones:reshape(1, 3)) end,
      function(a, _, x) return ones:reshape(1, 3, 1):matmul(row(a(x))) end,
      function(a, _, x) return ones:reshape(3, 1):matmul(row(a(x))) end,
    } do
      local Side = class('Side', nn.Module)
      function Side:init()
        nn.Module.init(self)
        for _, name in ipairs { 'a', 'b' } do self:child(name, nn.Linear(5, 4)) end
        self:child('c', nn.Linear(4, 2))
      end
      local both = false
      function Side:forward(x)
        local c = self.children
        local function b(y)
          both = true
          return c[2].module(y)
        end
        return c[3].module(product(c[1].module, b, x):permute(2, 3, 1))
      end
      local net, x = Side():eval(), ridge.randn(3, 5)
      for i = 1, 2 do weigh(net.children[i].module, { 9, 0.1, 7, 0.2 }) end
      local small, report = shrink(net, x)
      local sizes = {}
      for i = 1, 3 do sizes[i] = small.children[i].module.weight:size() end
      assert.same({ { 2, 5 }, { both and 2 or 4, 5 }, { 2, 2 } }, sizes)
      assert.same({ 4, 2 }, { report.rows[1].before, report.rows[1].after })
      local whole = net:clone():eval()
      ridge.inference(function()
        for _, i in ipairs { 2, 4 } do
          whole.children[3].module.weight:narrow(2, i, 1):fill_(0)
        end
      end)
      assert.is_true(apart(small(x), whole(x)) < 1e-4)
    end
  end)

  it('takes places together that an axis was taken apart into', function()
    local Parts = class('Parts', nn.Module)
    function Parts:init()
      nn.Module.init(self)
      self:child('a', nn.Linear(5, 12))
      self:child('b', nn.Linear(3, 2))
    end
    function Parts:forward(x)
      local c = self.children
      return c[2].module(c[1].module(x):reshape(x:size(1), -1, 4):relu():sum(3))
    end
    local net = Parts():eval()
    weigh(net.children[1].module, { 9, 9, 9, 9, 0, 0.1, 0, 0.1, 0, 9, 9, 9 })
    local x = ridge.randn(7, 5)
    local small, report = shrink(net, x, { share = 1 / 3 })
    local a, b = small.children[1].module.weight, small.children[2].module.weight
    assert.same({ { 8, 5 }, { 2, 2 } }, { a:size(), b:size() })
    assert.same({ 3, 2 }, { report.rows[1].before, report.rows[1].after })
    local was = net.children[1].module.weight
    assert.equal(0, apart(a:narrow(1, 1, 4), was:narrow(1, 1, 4)))
    assert.equal(0, apart(a:narrow(1, 5, 4), was:narrow(1, 9, 4)))
    local whole = net:clone():eval()
    ridge.inference(function() whole.children[2].module.weight:narrow(2, 2, 1):fill_(0) end)
    assert.is_true(apart(small(x), whole(x)) < 1e-5)
  end)

  it('keeps to an axis that a reshape beside it leaves as it is', function()
    local Patches = class('Patches', nn.Module)
    function Patches:init()
      nn.Module.init(self)
      self:child('a', nn.Conv2d(2, 4, 2, { stride = 2 }))
      self:child('b', nn.Linear(4, 3))
    end
    function Patches:forward(x)
      local y = self.children[1].module(x)
      return self.children[2].module(y:reshape(y:size(1), y:size(2), -1):transpose(2, 3))
    end
    local net = Patches():eval()
    weigh(net.children[1].module, { 9, 0.1, 0.2, 9 })
    local x = ridge.randn(3, 2, 6, 4)
    local small = shrink(net, x)
    assert.same({ 2, 2, 2, 2 }, small.children[1].module.weight:size())
    assert.same({ 3, 2 }, small.children[2].module.weight:size())
    local whole = net:clone():eval()
    for _, gone in ipairs { 2, 3 } do
      ridge.inference(function()
        whole.children[2].module.weight:narrow(2, gone, 1):fill_(0)
      end)
    end
    assert.same({ 3, 6, 3 }, small(x):size())
    assert.is_true(apart(small(x), whole(x)) < 1e-5)
  end)

  it('cuts tied weights once, and states of an LSTM not at all', function()
    local net = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 6), nn.Linear(6, 9))
    net[3].weight = net[1].weight
    local small = shrink(net, ridge.tensor({ { 1, 2 } }, { dtype = 'i64' }))
    assert.same({ 9, 3 }, small[1].weight:size())
    assert.equal(small[1].weight._t, small[3].weight._t)
    assert.is_true(small.training)
    local lstm = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.LSTM(8, 4)):eval()
    local narrow, report = shrink(lstm, ridge.randn(2, 3, 5))
    assert.equal(4, narrow[3].n_in)
    assert.same({ 2, 3, 4 }, (narrow(ridge.randn(2, 3, 5))):size())
    assert.truthy(reason(report, '3.1.recurrent'):find('has states of it', 1, true))
  end)

  it('gives the results of a masked net, without the channels that masks made 0', function()
    local net = nn.Sequential(nn.Conv2d(2, 8, 3, { padding = 1 }), nn.BatchNorm(8), nn.ReLU(),
      nn.Conv2d(8, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 16, 10), nn.ReLU(),
      nn.Linear(10, 3))
    for _ = 1, 3 do net(ridge.randn(4, 2, 6, 6)) end
    local x = ridge.randn(3, 2, 6, 6)
    local m = ridge.prune.magnitude(net, { sparsity = 0.5, pattern = 'filter', scope = 'layer' })
    m[2].running_mean:fill_(0.3) -- what is masked is 0 behind the normalisation too
    local small = shrink(m, x, {})
    assert.same({ 4, 2, 3, 3 }, small[1].weight:size())
    assert.same({ 5, 48 }, small[7].weight:size())
    assert.is_true(apart(ridge.inference(small, x), ridge.inference(m, x)) < 1e-5)
    assert.same({ 4, 2, 3, 3 }, small[1].weight_mask:size())
    -- a constant that comes out of 0 keeps its channel
    local late = nn.Sequential(nn.Linear(4, 6), nn.Sigmoid(), nn.Linear(6, 2)):eval()
    local masked = ridge.prune.magnitude(late, { sparsity = 0.5, pattern = 'row' })
    assert.truthy(failure(shrink, masked, ridge.randn(2, 4), {})
      :find('no unit is 0 as a whole (3 of 6 units of 1 have weights of 0 and stay', 1, true))
  end)

  it('takes channels that the next layer multiplies by 0 alone, whatever they are', function()
    local x = ridge.randn(3, 2, 4, 4)
    for _, next_one in ipairs { nn.Conv2d(4, 3, 1), nn.Linear(4, 3) } do
      local image = getmetatable(next_one) == nn.Conv2d
      local net = nn.Sequential(image and nn.Conv2d(2, 4, 1) or nn.Linear(4, 4), nn.Sigmoid(),
        next_one):eval()
      ridge.inference(function()
        for _, i in ipairs { 2, 4 } do net[3].weight:narrow(2, i, 1):fill_(0) end
      end)
      local small = shrink(net, x, {})
      assert.equal(2, small[1].weight:size(1))
      assert.equal(2, small[3].weight:size(2))
      assert.is_true(apart(ridge.inference(small, x), ridge.inference(net, x)) < 1e-5)
    end
  end)

  it('leaves what it cannot follow whole, and names it', function()
    local Odd = class('Odd', nn.Module)
    function Odd:init()
      nn.Module.init(self)
      self:child('a', nn.Linear(4, 6))
      self:child('b', nn.Linear(6, 8))
      self:child('c', nn.Linear(8, 2))
    end
    function Odd:forward(x)
      local c = self.children
      local y = c[1].module(x):cumsum(2) -- along what would go
      return c[3].module(c[2].module(y):relu())
    end
    local small, report = shrink(Odd():eval(), ridge.randn(3, 4))
    assert.same({ 6, 4 }, small.children[1].module.weight:size())
    assert.same({ 4, 6 }, small.children[2].module.weight:size())
    assert.truthy(reason(report, 'a'):find('cumsum', 1, true))
    local by_number = class('ByNumber', nn.Module)
    function by_number:init()
      nn.Module.init(self)
      self:child('a', nn.Linear(4, 6))
      self:child('b', nn.Linear(6, 2))
    end
    function by_number:forward(x)
      local y = self.children[1].module(x)
      return self.children[2].module(y:reshape(-1, 2, 3):relu():reshape(-1, 6))
    end
    assert.truthy(failure(shrink, by_number():eval(), ridge.randn(3, 4))
      :find('may have sizes of its own: name it in skip', 1, true))
  end)

  it('refuses shares that leave nothing, and what is no importance', function()
    local net = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)):eval()
    local x = ridge.randn(2, 5)
    for _, bad in ipairs { 0, 1, 0 / 0, 50 } do
      assert.truthy(failure(shrink, net, x, { share = bad }):find('more than 0 and less than 1', 1,
        true))
    end
    assert.truthy(failure(shrink, net, x, { share = 0.9 }):find('nothing would be left of 1', 1,
      true))
    assert.truthy(failure(shrink, net, 3, { share = 0.5 }):find('an input is expected', 1, true))
    assert.truthy(failure(shrink, net, x, { share = 0.5, importance = {} })
      :find('is of ridge.prune.importance', 1, true))
    local other = ridge.prune.importance(nn.Sequential(nn.Linear(5, 2), nn.Linear(2, 3)))
    assert.truthy(failure(shrink, net, x, { share = 0.5, importance = other })
      :find('of another net', 1, true))
    assert.truthy(failure(shrink, nn.Linear(3, 2):eval(), ridge.randn(2, 3), { share = 0.5 })
      :find('nothing can go (', 1, true))
    assert.truthy(failure(shrink, net, x, { share = 0.1 }):find('nothing can go: a share of 0.1 of '
      .. 'the 4 units of 1 is less than half of one', 1, true))
  end)

  it('is judged beside drawn units and beside the small shape from the start', function()
    local x = ridge.randn(200, 6)
    local labels = x:narrow(2, 1, 1):gt(0):to('i64'):reshape(200)
    local net, epochs = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)), {}
    local test = ridge.data.Loader({ x, labels }, { batch = 100, shuffle = false })
    local seen = {}
    local small, report = shrink(net, x, { share = 0.5, epochs = 3, trained = 2, test = test,
      train = function(t, n)
        assert.is_true(t.training)
        epochs[#epochs + 1] = n
        seen[#seen + 1] = t[1].weight:clone()
        local optimizer = ridge.optim.Adam(t, { lr = 0.05 })
        for _ = 1, n do
          optimizer:zero_grad()
          nn.cross_entropy(t(x), labels):backward()
          optimizer:step()
        end
      end })
    assert.same({ 3, 3, 5 }, epochs)
    assert.equal(3, #report.candidates)
    assert.equal(2, #report.controls)
    for _, w in ipairs(seen) do assert.same({ 4, 6 }, w:size()) end
    -- from the start: no row is one of the net's
    for i = 1, 4 do
      for k = 1, 8 do
        assert.is_true(apart(seen[3]:narrow(1, i, 1), net[1].weight:narrow(1, k, 1)) > 1e-3)
      end
    end
    assert.is_true(apart(small[1].weight, seen[1]) > 1e-3, 'it was tuned')
    local text = tostring(report)
    assert.truthy(text:find('Beside the small shape from the start, 5 epochs', 1, true), text)
    assert.truthy(text:find('control, units that were drawn', 1, true), text)
  end)
end)
