-- SPDX-License-Identifier: MIT
--- What modules print, and the sentences of sizes that are none, as approved.

local approved = dofile 'tests/lua/approved.lua'
local ridge = require 'ridge'
local nn = ridge.nn

describe('modules', function()
  it('print and refuse in the words that were approved', function()
    local out = {}
    local function try(text, f)
      local ok, found = pcall(f)
      out[#out + 1] = ('%s: %s'):format(text, ok and tostring(found)
        or type(found) == 'table' and found.code .. ' ' .. found.message or 'CRASHED ' .. found)
    end
    for _, text in ipairs { 'Linear(3, 5)', 'Linear(3, 5, {bias = false})',
        "Linear(3, 5, {activation = 'relu'})", 'Linear(0, 5)', 'Linear(3)', "Linear(3, 'a')",
        'Linear(3, 5, {bais = true})', 'Linear(2.5, 1)',
        'Conv2d(3, 8, 5)', 'Conv2d(3, 8, {3, 5}, {stride = 2, padding = 1})', 'Conv2d(0, 8, 3)',
        'Conv2d(3, 8, 0)', 'Conv2d(3, 8, 3, {stride = 0})', 'Conv2d(3, 8, {1, 2, 3})',
        'Conv2d(3)', 'BatchNorm(4)', 'BatchNorm1d(4)', 'BatchNorm(0)', 'LayerNorm(4)',
        'LayerNorm(0)', 'Embedding(10, 4)', 'Embedding(0, 4)', 'Dropout(0.25)', 'Dropout(2)',
        'ReLU()', 'GELU()', 'Flatten()',
        'Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))',
        'Sequential()', 'Sequential(7)', 'LSTM(3, 5)', 'LSTM(3, 0)', 'GRU(3, 5)',
        'SKLinear(320, 160, {num_terms = 2, low_rank = 4})',
        'SKLinear(32, 16, {num_terms = 0, low_rank = 4})', 'MultiHeadAttention(8, {heads = 2})',
        'MultiHeadAttention(8, {heads = 3})', 'MultiHeadAttention(8, 2)' } do
      local made = assert(loadstring('local nn = ... return nn.' .. text))
      try(text, function() return made(nn) end)
    end
    local net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    local conv = nn.Conv2d(3, 8, 3)
    for _, case in ipairs { { 'Linear', nn.Linear(2, 3), { 4, 5 } },
        { 'Sequential', net, { 4, 3 } }, { 'Conv2d', conv, { 1, 2, 8, 8 } },
        { 'Conv2d', conv, { 3, 2 } },
        { 'LayerNorm', nn.LayerNorm(4), { 2, 3 } } } do
      try(('%s of %s'):format(case[1], table.concat(case[3], ' x ')), function()
        return case[2](ridge.zeros(unpack(case[3])))
      end)
    end
    for _, n in ipairs { 0, 4, 1.5, 'a' } do
      try('recompute ' .. n, function() return net:recompute(n) end)
    end
    approved.check('nn/words', table.concat(out, '\n'))
  end)

  it('recompute the same in any number of segments', function()
    local net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(),
      nn.Linear(4, 2))
    net:train()
    local x = ridge.randn(3, 4)
    local want = net(x):tolist()
    for _, segments in ipairs { 1, 2, 3, 4, 5, true } do
      net:recompute(segments)
      local got = net(x):tolist()
      for i, row in ipairs(want) do
        for k, v in ipairs(row) do assert.near(v, got[i][k], 1e-6) end
      end
    end
  end)
end)
