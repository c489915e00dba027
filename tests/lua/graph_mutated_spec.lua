-- SPDX-License-Identifier: MIT
-- Texts of many graphs, printed and JSON, with words, lines and bytes changed: what is read of them
-- is refused with one sentence of ridge's own, or is a graph: it holds, reads back as itself in
-- both forms, passes leave a graph, and its plan runs, all in bounded memory. RIDGE_SOAK=N tries N
-- times as many; RIDGE_FUZZ_KEEP names a file that has the text which is tried, behind a crash.
local ridge = require 'ridge'
local blame = require 'ridge.blame'
local functions = require 'tests.lua.graph_functions'
local seeded = require 'tests.lua.seeded'
local nn = ridge.nn

local SOAK = tonumber(os.getenv 'RIDGE_SOAK') or 1
local SEED = tonumber(os.getenv 'RIDGE_SEED') or 1
local MOST = 2 ^ 28 -- bytes that the tensors of one graph may take
local MOST_WORK = 1e8 -- operations of one run
local WORDS = { '%0', '%1', '%7', '%99', '0', '-1', '1', '2', '3', '4', '6', '8', '9', '63',
  '2147483647', '-2147483648', '4294967296', '9223372036854775807', '-9223372036854775808',
  '1e308', '-1e-320', 'nan', 'inf', '0.5', 'f32', 'f64', 'bf16', 'i64', 'i32', 'u8', 'bool',
  'f32[]', 'f32[0]', 'f32[2,3]', 'f32[4,6]', 'f32[2147483647,2147483647]', 'input', 'constant',
  'parameter', 'derived', 'unwritten', 'recomputed', 'return', 'keep', 'states', 'inputs', '<N>',
  '<2*N>', '<-1*N>', 'true', 'false', 'null', '{', '}', '[', ']', '(', ')', ',', ';', ':', '"',
  '=', '\n', ' ', '', '\0', '\255' }


-- Graphs with views, draws, writes, bodies, gradients, fused chains, sizes that may change.
local function graphs()
  local list = {}
  for seed = 1, 40 do
    ridge.seed(seed)
    local world = functions.world(seed)
    functions.refill(world, 0)
    local ok, graph = pcall(ridge.graph, functions.of(world))
    if ok then list[#list + 1] = graph end
  end
  ridge.seed(3)
  local x, image = ridge.randn(2, 5, 8), ridge.randn(2, 3, 8, 8)
  local conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm(4), nn.ReLU(), nn.MaxPool2d(2))
  local dense = nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.Dropout(0.5), nn.Linear(6, 3))
  local lstm = nn.LSTM(8, 4)
  list[#list + 1] = ridge.graph(conv, image)
  list[#list + 1] = ridge.graph(dense, x)
  list[#list + 1] = ridge.graph(function(a)
    local loss = nn.cross_entropy(dense(a):reshape(-1, 3), ridge.zeros(10):to 'i64')
    loss:backward()
    return loss
  end, x)
  list[#list + 1] = ridge.graph(lstm, x)
  list[#list + 1] = ridge.graph(function(a)
    local u = ridge.recompute(function(z) return z:exp():dropout(0.25) end, a)
    local four = a:unsqueeze(1)
    return u:softmax(3), u:argmax(1), (u:sort(2)), nn.attention(u:unsqueeze(1), four, four),
      ridge.concat({ a, u }, 1), u:gather(1, ridge.zeros({ 1, 5, 8 }, { dtype = 'i64' })),
      ridge.quantize(a, 0.1, 0, { axis = 1 }), a:resize { 3, 5, 8 }
  end, x)
  list[#list + 1] = ridge.graph(conv:eval(), image):optimize 'aggressive'
  list[#list + 1] = ridge.graph(dense:eval(), x):optimize 'aggressive'
  list[#list + 1] = ridge.graph(conv, image, { sizes = { { 'N', 3, 8, 8 } } })
  list[#list + 1] = ridge.graph(dense, x, { sizes = { { 2, 'T', 8 } } })
  return list
end

local function texts()
  local list = {}
  for _, graph in ipairs(graphs()) do
    list[#list + 1] = tostring(graph)
    list[#list + 1] = tostring(graph)
    list[#list + 1] = graph:json()
  end
  return list
end

local function split(text, pattern)
  local list = {}
  for part in text:gmatch(pattern) do list[#list + 1] = part end
  return list
end

-- Where a word of a text is: a number, a name, a value, a sign.
local function word_in(text, random)
  local at = random(#text)
  local from, to = text:find('%%?[%w_.+-]+', at)
  if not from or random(4) == 1 then return at, at end
  return from, to
end

-- One change of a text; words and lines come out of the other.
local function change(text, other, random)
  if text == '' then return text end
  local kind = random(9)
  if kind <= 4 then -- a word by one of ours, of the other text, of this, or by a near number
    local from, to = word_in(text, random)
    local by = WORDS[random(#WORDS)]
    if kind == 2 and other ~= '' then by = other:sub(word_in(other, random)) end
    if kind == 3 then by = text:sub(word_in(text, random)) end
    local number = text:sub(from, to):match '^%%?(%-?%d+)$'
    if kind == 4 and number then
      by = text:sub(from, from) == '%' and '%' or ''
      by = by .. ('%d'):format(tonumber(number) + random(5) - 3)
    end
    return text:sub(1, from - 1) .. by .. text:sub(to + 1)
  elseif kind <= 7 then -- a line left out, doubled, moved, of the other text
    local lines, from = split(text, '[^\n]*\n?'), split(other, '[^\n]*\n?')
    local at, to = random(#lines), random(#lines)
    if kind == 5 then
      table.remove(lines, at)
    elseif kind == 6 then
      table.insert(lines, to, lines[at])
    else
      table.insert(lines, to, from[random(#from)])
    end
    return table.concat(lines)
  end
  local at, n = random(#text), random(12)
  if kind == 8 then -- a byte
    local byte = bit.bxor(text:byte(at), bit.lshift(1, random(8) - 1))
    return text:sub(1, at - 1) .. string.char(byte) .. text:sub(at + 1)
  end
  return random(2) == 1 and text:sub(1, at - 1) .. text:sub(at + n) or text:sub(1, at)
end

-- What is wrong with an error: raised by Lua itself, or no sentence.
local function fault(err)
  if not blame.is_error(err) then return 'raw: ' .. tostring(err) end
  if err.cause then return 'hides ' .. tostring(err.cause) end
  local first = tostring(err.message):match '^[^\n]*'
  if first == '' or first:find '%c' then return 'no sentence: ' .. tostring(err.message) end
  if err.code == 'EBUG' then return 'EBUG: ' .. first end
end

local function work_of(graph)
  local flops = 0
  for _, node in ipairs(graph:nodes()) do
    flops = flops + (node.flops or 0)
    for _, value in ipairs(node.outputs) do
      local count = 1
      for _, size in ipairs(value and value.shape or {}) do count = count * size end
      flops = flops + count
    end
  end
  return flops
end

-- Read a text, and what comes of it. Returns how far it came, and what is wrong.
local function try(text)
  local ok, graph = pcall(ridge.graph.parse, text)
  if not ok then return 'refused', fault(graph) end
  for _, form in ipairs { tostring, graph.json } do
    local back_ok, back = pcall(ridge.graph.parse, form(graph))
    if not back_ok then return 'read', 'does not read back: ' .. tostring(back) end
    local same, why = graph:same(back)
    if not same then return 'read', 'reads back as another: ' .. tostring(why) end
  end
  local sound, unsound = pcall(graph.check, graph)
  if not sound then return 'read', 'is none: ' .. tostring(unsound) end
  for _, level in ipairs { 'standard', 'aggressive' } do
    local done, h = pcall(graph.optimize, graph, level)
    if done then done, h = pcall(h.check, h) end
    if not done then
      local wrong = fault(h) or (tostring(h):find 'memory' == nil and tostring(h) or nil)
      return 'read', wrong and level .. ': ' .. wrong
    end
  end
  if work_of(graph) > MOST_WORK then return 'read' end
  local planned, plan = pcall(graph.plan, graph)
  if not planned then return 'read', fault(plan) end
  local ran, err = pcall(plan.run, plan)
  if not ran then return 'read', fault(err) end
  return 'run'
end

describe('a text of a graph with mistakes in it', function()
  setup(function() ridge.memory.set_limit(ridge.memory.stats().live + MOST) end)
  teardown(function() ridge.memory.set_limit(0) end)

  it('is refused with a sentence, or is a graph', function()
    local list, came, faults = texts(), { refused = 0, read = 0, run = 0 }, {}
    local random = seeded(SEED)
    for n = 1, 1000 * SOAK do
      local text = list[random(#list)]
      for _ = 1, random(3) do text = change(text, list[random(#list)], random) end
      if os.getenv 'RIDGE_FUZZ_KEEP' then -- a crash leaves its text
        local file = assert(io.open(os.getenv 'RIDGE_FUZZ_KEEP', 'wb'))
        file:write(text)
        file:close()
      end
      if ridge.memory.stats().cached > MOST then ridge.memory.trim() end
      local far, wrong = try(text)
      came[far] = came[far] + 1
      local kind = wrong and wrong:gsub('%d+', '#')
      if wrong and not faults[kind] then
        faults[kind] = true
        faults[#faults + 1] = ('seed %d, text %d, %s: %s'):format(SEED, n, far, wrong)
      end
    end
    assert.equal('', table.concat(faults, '\n'))
    assert.is_true(came.refused > 0 and came.run > 0)
  end)
end)
