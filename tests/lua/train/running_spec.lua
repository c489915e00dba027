-- SPDX-License-Identifier: MIT
-- Running statistics in loops by hand: Stability and Guard put back what a batch made nan.
local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

local NAN, INF = 0 / 0, math.huge

describe('a batch that is not finite', function()
  it('leaves no trace in running statistics: loops by hand, with Stability or Guard', function()
    for _, bad in ipairs { NAN, INF } do
      for _, way in ipairs { 'stability', 'loss', 'guard', 'list', 'loaded', 'moved' } do
        local norm = nn.BatchNorm(3)
        local net = nn.Sequential(norm, nn.Linear(3, 2, { seed = 1 })):train()
        local o = optim.Adam(way == 'list' and net:parameters() or net, { lr = 0.1 })
        local guard = optim.Guard { kind = 'skip' }
        local watch = way ~= 'guard' and ridge.Stability(o)
        if way == 'moved' then net:to 'f64' end
        local x = ridge.randn({ 8, 3 }, { generator = ridge.generator(3) }):to(net:parameters()[1]
          .tensor.dtype)
        local function batch(what)
          o:zero_grad()
          local loss = net(what):square():mean()
          loss:backward()
          if not watch then return guard:apply(o).step and o:step() end
          watch:step(way ~= 'stability' and loss or nil)
        end
        -- the first one at once, where that is promised
        local spoiled = x:clone()
        spoiled[{ 1, 2 }] = bad
        if watch then batch(spoiled) end
        assert.same({ 0, 0, 0 }, { (norm.running_mean * 0):tolist()[1],
          (norm.running_mean * 0):tolist()[2], (norm.running_var * 0):tolist()[2] }, way)
        batch(x)
        if way == 'loaded' then
          norm.running_mean:copy_(ridge.tensor { 5, 6, 7 })
          watch:load_state(watch:state())
        end
        local mean, var = norm.running_mean:tolist(), norm.running_var:tolist()
        batch(spoiled)
        assert.are.equal(mean[2], norm.running_mean:tolist()[2], way)
        assert.are.equal(var[2], norm.running_var:tolist()[2], way)
        assert.are_not.equal(mean[1], norm.running_mean:tolist()[1], way)
      end
    end
  end)
end)
