#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "common/distributed/board.h"

namespace ladder::distributed {

/// A board that is a c10d Store. Only files that speak c10d include this header.
class C10dBoard : public Board {
  public:
    /// `kept_by` says in messages who keeps the store.
    C10dBoard(c10::intrusive_ptr<c10d::Store> store, std::string kept_by);

    void put(const std::string& name, const std::string& text) override;
    std::optional<std::string> look(const std::string& name, Patience patience) override;
    void remove(const std::string& name) override;

    /// For c10d's process groups, which meet there.
    const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  private:
    template <class Act>
    auto with_store(Act&& act);

    c10::intrusive_ptr<c10d::Store> store_;
    std::string kept_by_;
};

}  // namespace ladder::distributed
