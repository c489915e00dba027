-- SPDX-License-Identifier: MIT
--- What a training is measured and predicted with: batches, sizes of buckets, types that gradients
--- are sent in, each with each.

local M = {}

--- Columns of settings, in their order.
M.NAMES = { 'batch', 'bucket_mb', 'compress' }

--- Each with each; what has no values is left to the script.
---@param given table by name of `NAMES` a list of values, or none
---@return table list of {batch =, bucket_mb =, compress =}; one without any where none is given
---@return string[] axes names that have values
function M.all(given)
  local list, axes = { {} }, {}
  for _, name in ipairs(M.NAMES) do
    if given[name] and #given[name] > 0 then
      axes[#axes + 1] = name
      local more = {}
      for _, one in ipairs(list) do
        for _, value in ipairs(given[name]) do
          local own = { [name] = value }
          for key, before in pairs(one) do own[key] = before end
          more[#more + 1] = own
        end
      end
      list = more
    end
  end
  return list, axes
end

local WORDS = { batch = 'batch %d', bucket_mb = '%.14g MB', compress = '%s' }

--- What one is called: 'batch 32, 25 MB, bf16'; '' where it is the script's own.
---@param setting table of `all`
---@return string text
function M.name(setting)
  local words = {}
  for _, name in ipairs(M.NAMES) do
    if setting[name] then words[#words + 1] = WORDS[name]:format(setting[name]) end
  end
  return table.concat(words, ', ')
end

--- The one that has a point's values.
---@param list table with settings
---@param axes string[]
---@param p table by name
---@return table|nil found
function M.find(list, axes, p)
  for _, each in ipairs(list) do
    local same = true
    for _, name in ipairs(axes) do same = same and each.setting[name] == p[name] end
    if same then return each end
  end
end

--- That a script takes no notice of its --batch: steps have the same rows with each value, and not
--- those. Times of them would be kept as those of batches that nobody trained.
---@param list table of {setting =, rows = of a step of one rank, 0: not told}
---@return string|nil text the rest of a sentence; nil where it does, or there is no --batch
function M.unheeded(list)
  local differs, words, seen = false, {}, {}
  for _, each in ipairs(list) do
    local batch = each.setting.batch
    if not batch or each.rows == 0 or each.rows ~= list[1].rows then return nil end
    differs = differs or each.rows ~= batch
    if not seen[batch] then words[#words + 1] = ('--batch %d'):format(batch) end
    seen[batch] = true
  end
  return differs and ('a step has %.14g rows with %s'):format(list[1].rows,
    table.concat(words, ', with ')) or nil
end

return M
