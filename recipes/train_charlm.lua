-- SPDX-License-Identifier: MIT
--- A small transformer learns to write, letter by letter, from any text file.
--
-- By default the text is the licences that every Debian carries. A tenth of it, at the end, is kept
-- for testing; what is printed is the loss in bits a letter, beside that of knowing only how often
-- each letter comes.
--
-- machine: any
-- time:    about a minute on two cores
-- result:  a line now and then, a sample of what it writes, and at the end the test loss
--
--     ./ridge recipes/train_charlm.lua [--text FILE] [--steps 800] [--dtype bf16] [--device cuda:0]

local ridge = require 'ridge'
local nn = ridge.nn

local opt = ridge.args {
  { 'text', '', 'file to learn from; the licences in /usr/share/common-licenses when left out' },
  { 'steps', 800, 'how many', integer = true, min = 1 },
  { 'batch', 16, 'pieces in a step', integer = true, min = 1 },
  { 'length', 128, 'letters in a piece', integer = true, min = 2 },
  { 'width', 128, 'size of a vector', integer = true, min = 4 },
  { 'layers', 2, 'blocks', integer = true, min = 1 },
  { 'heads', 4, 'of attention', integer = true, min = 1 },
  { 'lr', 2e-3, 'learning rate, behind a warm-up, falling as a cosine', min = 0 },
  { 'dtype', 'f32', 'compute products in', choices = { 'f32', 'bf16' } },
  { 'seed', 1, 'of weights and pieces', integer = true, min = 0 },
  { 'device', 'cpu', "where it trains: 'cpu', 'cuda:0'" },
  { 'smoke', false, 'a few steps of a tiny model, to see that everything works' },
}
if opt.smoke then
  opt.steps, opt.width, opt.length, opt.layers = math.min(opt.steps, 40), 32, 32, 1
end

-- -- Text -------------------------------------------------------------------------------------

local function read(path)
  local file, why = io.open(path, 'rb')
  if not file then error('train_charlm: ' .. why, 0) end
  local text = file:read '*a'
  file:close()
  return text
end

local text = ''
if opt.text ~= '' then
  text = read(opt.text)
else
  for _, name in ipairs { 'Apache-2.0', 'Artistic', 'GPL-2', 'GPL-3', 'LGPL-2.1', 'MPL-2.0' } do
    local file = io.open('/usr/share/common-licenses/' .. name, 'rb')
    if file then
      text = text .. file:read '*a'
      file:close()
    end
  end
end
if #text < 20 * opt.length then
  error(('train_charlm: the text has %d letters; at least %d are wanted'):format(#text,
    20 * opt.length), 0)
end

-- Each byte that comes has a number, from 0; the text as numbers.
local number_of, byte_of, counts = {}, {}, {}
local list = {}
for i = 1, #text do
  local byte = text:byte(i)
  if not number_of[byte] then
    number_of[byte] = #byte_of
    byte_of[#byte_of + 1] = byte
  end
  local number = number_of[byte]
  list[i] = number
  counts[number] = (counts[number] or 0) + 1
end
local letters = #byte_of
local all = ridge.tensor(list, { dtype = 'u8', device = opt.device })
local n_train = math.floor(#text * 0.9)
local entropy = 0
for _, n in pairs(counts) do entropy = entropy - n / #text * math.log(n / #text) / math.log(2) end

-- -- Model ------------------------------------------------------------------------------------

local Writer = {}
Writer.letter = nn.Embedding(letters, opt.width, { seed = opt.seed + 1 })
Writer.place = nn.Embedding(opt.length, opt.width, { seed = opt.seed + 2 })
Writer.blocks = nn.Sequential()
for i = 1, opt.layers do
  Writer.blocks:add(nn.TransformerBlock(opt.width, { heads = opt.heads, causal = true,
    seed = opt.seed + 10 * i }))
end
Writer.norm = nn.LayerNorm(opt.width)
Writer.out = nn.Linear(opt.width, letters, { seed = opt.seed + 3 })
ridge.no_grad(function()
  Writer.letter.weight:copy_(Writer.letter.weight * 0.1)
  Writer.place.weight:copy_(Writer.place.weight * 0.1)
end)
local net = nn.Sequential(Writer.letter, Writer.place, Writer.blocks, Writer.norm, Writer.out)
  :to(opt.device)

local function scores(x)
  local length = x:size(2)
  local places = ridge.arange(0, length - 1, { device = opt.device }):to 'i64'
  return Writer.out(Writer.norm(Writer.blocks(Writer.letter(x) + Writer.place(places))))
end

-- -- Pieces -----------------------------------------------------------------------------------

local stream = ridge.generator(opt.seed)
local steps_of = ridge.arange(0, opt.length, { device = opt.device }):reshape(1, opt.length + 1)

--- Pieces of the text from random places, one letter longer than the model reads.
local function pieces(first, last, n)
  local starts = ridge.rand(n, 1, { generator = stream, device = opt.device })
    * (last - first - opt.length) + first
  return all:take((starts:floor() + steps_of):to 'i64')
end

local function loss_of(rows)
  local n = opt.length
  local x, y = rows:narrow(2, 1, n):contiguous(), rows:narrow(2, 2, n):contiguous()
  local found = opt.dtype == 'f32' and scores(x) or ridge.autocast(opt.dtype, scores, x)
  return nn.cross_entropy(found, y)
end

--- Bits a letter on text that was not trained on.
local function test()
  net:eval()
  local sum, n = 0, opt.smoke and 2 or 8
  for _ = 1, n do
    local rows = pieces(n_train, #text, opt.batch)
    sum = sum + ridge.no_grad(function() return loss_of(rows):item() end)
  end
  net:train()
  return sum / n / math.log(2)
end

-- -- Training -----------------------------------------------------------------------------------

local optimizer = ridge.optim.AdamW(net, { lr = opt.lr, betas = { 0.9, 0.95 }, weight_decay = 0.1 })
local schedule = ridge.optim.CosineLR(optimizer, { steps = opt.steps, final = 0.1,
  warmup = math.min(20, math.floor(opt.steps / 10)) })
net:train()
print(('%d letters, %d of a kind, %d parameters, %s; by frequency alone %.3f bits a letter'):format(
  #text, letters, net:num_parameters(), opt.dtype, entropy))

local began = ridge.clock()
local every = math.max(1, math.floor(opt.steps / 10))
for step = 1, opt.steps do
  local loss = ridge.scope(function()
    optimizer:zero_grad()
    local loss = loss_of(pieces(0, n_train, opt.batch))
    loss:backward()
    optimizer:step { scale = optimizer:clip(1) }
    return loss:detach() -- to read it would wait at each step
  end)
  schedule:step()
  if ridge.stopping() then os.exit(130) end
  if step % every == 0 or step == opt.steps then
    local bits = loss:item() / math.log(2) -- when this is there, all steps are done
    local seconds = ridge.clock() - began
    print(('step %4d  loss %.3f  test %.3f bits  %.0f letters/s'):format(step, bits, test(),
      step * opt.batch * opt.length / seconds))
  end
end

-- -- Writing ----------------------------------------------------------------------------------

--- Letters, each drawn from what the model expects.
local function write(start, n)
  local out = { start }
  local known = {}
  for i = 1, #start do known[i] = number_of[start:byte(i)] or 0 end
  net:eval()
  for _ = 1, n do
    local from = math.max(1, #known - opt.length + 1)
    local x = ridge.tensor({ { unpack(known, from) } }, { dtype = 'u8', device = opt.device })
    local p = ridge.no_grad(function()
      return scores(x):narrow(2, x:size(2), 1):reshape(letters):softmax()
    end)
    local rest, number = ridge.rand(1, { generator = stream }):item(), 0
    for i, share in ipairs(p:tolist()) do
      rest = rest - share
      number = i - 1
      if rest < 0 then break end
    end
    known[#known + 1] = number
    out[#out + 1] = string.char(byte_of[number + 1])
  end
  return table.concat(out)
end

print(('\n%s\n'):format(write('The ', opt.smoke and 20 or 200)))
print(('test loss %.3f bits a letter (by frequency alone %.3f)'):format(test(), entropy))
