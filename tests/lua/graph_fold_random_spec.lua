-- SPDX-License-Identifier: MIT
-- Random nets of convolutions and norms in evaluation, with views, second readers and writes in
-- place between them: behind batch_norm_folding they give the eager results but for rounding.
local ridge = require 'ridge'
local nn = ridge.nn

local MANY = dofile('tests/op/due.lua').setting('RIDGE_RANDOM_GRAPHS', 60)
local ALL = {}
for _, pass in ipairs(ridge.graph.passes()) do
  if pass.does then ALL[#ALL + 1] = pass.name end
end

-- Convolutions of four channels and norms whose parameters are no ones and zeros.
local function layers()
  local convs, norms = {}, {}
  for i = 1, 3 do
    convs[i] = nn.Conv2d(4, 4, 3, { seed = i, padding = 1, bias = i > 1,
      groups = 2 ^ (i - 1) }):eval()
    norms[i] = nn.BatchNorm(4, { affine = i > 1 }):eval()
    for name, x in pairs(norms[i]:state()) do
      x:detach():copy_(ridge.rand(unpack(x.shape)) * 0.5 + (name:find 'var' and 0.75 or 0.25))
    end
  end
  return convs, norms
end

-- A function of x, which may write to what it made, and to parameters of the layers.
local function random_function(seed, convs, norms)
  local draws = {}
  math.randomseed(seed)
  for i = 1, 4 + math.random(8) do
    draws[i] = { math.random(10), math.random(1000), math.random(3), math.random(3) }
  end
  return function(x)
    local made, own = { x }, {}
    for _, draw in ipairs(draws) do
      local kind, y = draw[1], made[draw[2] % #made + 1]
      local conv, norm = convs[draw[3]], norms[draw[4]]
      local z
      if kind <= 3 then
        z = norm(conv(y))
      elseif kind == 4 then
        local between = conv(y) -- read twice
        z = norm(between) + between
      elseif kind == 5 then
        local between = conv(y)
        z = norm(between)
        between:add_(1)
        z = z + between
      elseif kind == 6 then
        local between = conv(y)
        between:narrow(2, 1, 2):mul_(0.5) -- before the norm reads it
        z = norm(between)
      elseif kind == 7 then
        z = norm(conv(y))
        z:transpose(3, 4):relu_() -- over what the norm made, through a view
      elseif kind == 8 then
        z = conv(y)
        conv.weight:mul_(0.875) -- behind the convolution, before the norm
        z = norm(z)
      elseif kind == 9 then
        z = norm(conv(y))
        norm.running_mean:mul_(0.875)
      elseif own[y] then
        y:mul_(0.5)
        z = y
      else
        z = y:relu()
      end
      made[#made + 1] = z
      own[z] = true
    end
    return made[#made], made[math.max(2, #made - 1)] * 1, made[math.max(2, #made - 2)]:sum()
  end
end

local function distance(a, b)
  return (a - b):abs():max():item() / math.max(b:abs():max():item(), 1e-3)
end

-- What the first runs gave: eager, or planned behind passes.
local function rounds(seed, passes)
  ridge.seed(seed)
  local convs, norms = layers()
  local f = random_function(seed, convs, norms)
  local x = ridge.randn(2, 4, 5, 5)
  local out, plan, n_norms = {}, nil, 0
  for round = 1, 3 do
    x:copy_(ridge.randn(2, 4, 5, 5))
    if passes and not plan then
      local g = ridge.inference(function() return ridge.graph(f, x) end)
      local h = g:optimize(passes):check()
      for _, node in ipairs(h:nodes()) do
        n_norms = n_norms + (node.op == 'batch_norm' and 1 or 0)
      end
      for _, node in ipairs(g:nodes()) do
        n_norms = n_norms - (node.op == 'batch_norm' and 1 or 0)
      end
      plan = h:plan()
    else
      local results
      if plan then results = { plan:run() } else results = { ridge.inference(f, x) } end
      out[round] = {}
      for i, y in ipairs(results) do out[round][i] = y:clone() end
    end
  end
  return out, -n_norms
end

describe('folding of batch norms into convolutions', function()
  it('changes random nets by no more than rounding', function()
    local folded = 0
    for seed = 1, MANY do
      local want = rounds(seed)
      for _, passes in ipairs { { 'batch_norm_folding' }, ALL } do
        local got, n = rounds(seed, passes)
        folded = folded + n
        for round = 2, 3 do
          for i, y in ipairs(want[round]) do
            -- ten times what one pair may be off by: sums of results of several may cancel
            local d = distance(got[round][i], y)
            assert.is_true(d < 1e-4, ('net %d, passes %s, round %d, result %d: off by %g'):format(
              seed, table.concat(passes, ' '), round, i, d))
          end
        end
      end
    end
    assert.is_true(folded > MANY, folded)
  end)
end)
