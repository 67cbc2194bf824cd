//! The memory of operators between requests: one value of each type.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::sync::Mutex;

/// The values that operators keep from request to request, as long as the memory's owner lives: measured rates,
/// choices.
///
/// It holds one value of each type, made when an operator first asks for it, so the types of the operators bound it;
/// each value bounds itself. Clones share the values. No result may depend on them: they only save time.
///
/// ```
/// use boxwork_runtime::operator::Memory;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// let memory = Memory::default();
/// memory.get::<AtomicU64>().store(7, Ordering::Relaxed);
/// assert_eq!(memory.get::<AtomicU64>().load(Ordering::Relaxed), 7);
/// assert_eq!(Memory::default().get::<AtomicU64>().load(Ordering::Relaxed), 0);
/// ```
#[derive(Clone, Default)]
pub struct Memory {
    values: Arc<Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>>,
}

impl Memory {
    /// The value of a type. The first call makes it as the type's default.
    pub fn get<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let known = self.values.lock().get(&TypeId::of::<T>()).cloned();
        let value = known.unwrap_or_else(|| {
            // Made without the lock, since `default` is foreign code. If another thread was faster, its value counts.
            let made: Arc<dyn Any + Send + Sync> = Arc::new(T::default());
            Arc::clone(self.values.lock().entry(TypeId::of::<T>()).or_insert(made))
        });
        value.downcast().unwrap_or_else(|_| unreachable!("each value is kept under its own type"))
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("values", &self.values.lock().len()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    #[test]
    fn clones_share_a_value_of_each_type_and_other_memories_do_not() {
        let memory = Memory::default();
        let others = [memory.clone(), Memory::default()];
        memory.get::<Count>().0.store(3, Ordering::Relaxed);
        assert_eq!(others.each_ref().map(|other| other.get::<Count>().0.load(Ordering::Relaxed)), [3, 0]);
        assert_eq!(memory.get::<AtomicUsize>().load(Ordering::Relaxed), 0);
    }
}
