-- SPDX-License-Identifier: MIT
--- What scripts that time trainings on several ranks share: the net, its rows, a step of it, ranks
--- of one thread, and what is printed and kept.

local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'

local nn = ridge.nn

local M = {}

--- Linear layers of a width with ReLU behind each, and one to 10 classes.
---@param width number
---@param layers number before the last
---@return table net the same numbers everywhere
function M.network(width, layers)
  local list = {}
  for i = 1, layers do
    list[#list + 1] = nn.Linear(width, width, { seed = i })
    list[#list + 1] = nn.ReLU()
  end
  list[#list + 1] = nn.Linear(width, 10, { seed = 99 })
  return nn.Sequential(unpack(list))
end

--- Rows and their classes.
---@param rows number
---@param width number
---@param seed number
---@return table x
---@return table y
function M.rows(rows, width, seed)
  local draws = ridge.generator(seed)
  return ridge.randn(rows, width, { generator = draws }),
    ridge.randint(0, 10, rows, { generator = draws })
end

--- A step of SGD with momentum, over ranks.
---@param net table of `network`
---@param x table rows of this rank
---@param y table
---@param opts table|nil of ridge.dist.DataParallel
---@return function step returns its loss, and how many ns the backward pass took
---@return table shared what ridge.dist.DataParallel gave
function M.training(net, x, y, opts)
  local shared = ridge.dist.DataParallel(net, opts)
  local optimizer = ridge.optim.SGD(shared, { lr = 0.01, momentum = 0.9 })
  return function()
    optimizer:zero_grad()
    local loss = nn.cross_entropy(shared(x), y)
    local began = C.rg_clock_ns()
    loss:backward()
    local took = tonumber(C.rg_clock_ns() - began)
    optimizer:step()
    return loss, took
  end, shared
end

--- Ranks of one thread run a script as `SCRIPT rank FILE words`.
---@param script string its path
---@param n number ranks
---@param words table
---@param env table|nil of theirs
---@return string text what they wrote to FILE
function M.launch(script, n, words, env)
  local texts, given = {}, { OMP_NUM_THREADS = '1' }
  for i, word in ipairs(words) do texts[i] = tostring(word) end
  for name, value in pairs(env or {}) do given[name] = value end
  return require('ridge.cli.by_ranks').run(n, ('return assert(loadfile(%q))("rank", unpack(arg))\n')
    :format(script), texts, { env = given })
end

--- Replace a file by a text, at once.
---@param path string
---@param text string
function M.put(path, text)
  local file = assert(io.open(path .. '.new', 'wb'))
  file:write(text)
  assert(file:close())
  assert(os.rename(path .. '.new', path))
end

--- What is printed, and kept where somebody wants it.
---@return function say (format, ...)
---@return function keep (path): '' keeps nothing
function M.report()
  local lines = {}
  return function(...)
    local text = (...):format(select(2, ...))
    print(text)
    lines[#lines + 1] = text
  end, function(path)
    if path ~= '' then M.put(path, table.concat(lines, '\n') .. '\n') end
  end
end

return M
